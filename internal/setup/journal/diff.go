package journal

import (
	"fmt"
	"strings"
)

// aroundLines is how many lines a diff shows around a change, maxTable the largest comparison it makes.
const (
	aroundLines = 3
	maxTable    = 4 << 20
)

// Diff returns the change as unified lines. mask hides the secrets of a text; it gets whole
// contents and must keep the number of lines. It may be nil.
func (c *Change) Diff(mask func(string) string) string {
	before, after := string(c.Before), string(c.After)
	if before == after {
		return ""
	}
	script := compare(lines(before), lines(after))
	if mask != nil {
		script.old, script.new = lines(mask(before)), lines(mask(after))
		if len(script.old) != len(lines(before)) || len(script.new) != len(lines(after)) {
			return "--- " + c.File + "\n(the change cannot be shown without secrets)\n"
		}
	}
	old := c.File
	if c.New {
		old = "(new file)"
	}
	return "--- " + old + "\n+++ " + c.File + "\n" + script.String()
}

// lines splits a text at its line ends and removes them.
func lines(text string) []string {
	var out []string
	for line := range strings.Lines(text) {
		out = append(out, strings.TrimRight(line, "\r\n"))
	}
	return out
}

// script is how one text becomes another: kept, removed and added lines.
type script struct {
	old, new []string
	ops      []byte // ' ', '-' or '+'
}

// compare finds the longest common lines. If the middle is very long, it counts all of it as
// changed.
func compare(a, b []string) script {
	s := script{old: a, new: b}
	head := 0
	for head < len(a) && head < len(b) && a[head] == b[head] {
		head++
	}
	tail := 0
	for tail < len(a)-head && tail < len(b)-head && a[len(a)-1-tail] == b[len(b)-1-tail] {
		tail++
	}
	x, y := a[head:len(a)-tail], b[head:len(b)-tail]
	s.add(' ', head)
	if len(x)*len(y) > maxTable {
		s.add('-', len(x))
		s.add('+', len(y))
	} else {
		s.middle(x, y)
	}
	s.add(' ', tail)
	return s
}

func (s *script) add(op byte, n int) {
	for range n {
		s.ops = append(s.ops, op)
	}
}

// middle appends the operations for lines without a common beginning or end.
func (s *script) middle(x, y []string) {
	width := len(y) + 1
	longest := make([]int32, (len(x)+1)*width)
	for i := len(x) - 1; i >= 0; i-- {
		for k := len(y) - 1; k >= 0; k-- {
			if x[i] == y[k] {
				longest[i*width+k] = longest[(i+1)*width+k+1] + 1
			} else {
				longest[i*width+k] = max(longest[(i+1)*width+k], longest[i*width+k+1])
			}
		}
	}
	i, k := 0, 0
	for i < len(x) || k < len(y) {
		switch {
		case i < len(x) && k < len(y) && x[i] == y[k]:
			s.add(' ', 1)
			i, k = i+1, k+1
		case i < len(x) && (k == len(y) || longest[(i+1)*width+k] >= longest[i*width+k+1]):
			s.add('-', 1)
			i++
		default:
			s.add('+', 1)
			k++
		}
	}
}

// String returns the changed lines with those around them.
func (s script) String() string {
	near := make([]bool, len(s.ops))
	for i, op := range s.ops {
		if op != ' ' {
			for k := max(0, i-aroundLines); k <= min(len(s.ops)-1, i+aroundLines); k++ {
				near[k] = true
			}
		}
	}
	var b strings.Builder
	i, k, shown := 0, 0, false
	for n, op := range s.ops {
		if near[n] && !shown {
			fmt.Fprintf(&b, "@@ -%d +%d @@\n", i+1, k+1)
		}
		shown = near[n]
		text := ""
		if op != '+' {
			text = s.old[i]
			i++
		}
		if op != '-' {
			text = s.new[k]
			k++
		}
		if shown {
			b.WriteString(string(op) + text + "\n")
		}
	}
	return b.String()
}
