package splice

import (
	"bytes"
	"strings"
)

func isBlank(c byte) bool { return c == ' ' || c == '\t' }

// lineStart returns the start of the line of a place.
func lineStart(src []byte, at int) int { return bytes.LastIndexByte(src[:at], '\n') + 1 }

// lineEnd returns where the line of a place ends, before its line end.
func lineEnd(src []byte, at int) int {
	i := bytes.IndexByte(src[at:], '\n')
	if i < 0 {
		return len(src)
	}
	for i > 0 && src[at+i-1] == '\r' {
		i--
	}
	return at + i
}

// beforeLine returns the end of the line before the one that starts at start: start without a line
// end.
func beforeLine(src []byte, start int) int {
	if start > 0 && src[start-1] == '\n' {
		start--
		for start > 0 && src[start-1] == '\r' {
			start--
		}
	}
	return start
}

// indentOf returns the blanks that the line of a place starts with.
func indentOf(src []byte, at int) string {
	start := lineStart(src, at)
	end := start
	for end < len(src) && isBlank(src[end]) {
		end++
	}
	return string(src[start:end])
}

// isFirst reports whether only blanks stand before a place in its line.
func isFirst(src []byte, at int) bool {
	return len(bytes.Trim(src[lineStart(src, at):at], " \t")) == 0
}

// unitOf returns one step of the file's indentation: the step of the first line that is indented
// deeper than the line before it, two blanks if there is none.
func unitOf(src []byte) string {
	last := ""
	for line := range bytes.Lines(src) {
		text := bytes.TrimLeft(line, " \t")
		if len(bytes.TrimSpace(text)) == 0 || text[0] == '#' || text[0] == '/' || text[0] == '*' {
			continue
		}
		indent := string(line[:len(line)-len(text)])
		if step, ok := strings.CutPrefix(indent, last); ok && step != "" {
			return step
		}
		last = indent
	}
	return "  "
}

// afterLine returns the start of the next line, for the end of a line.
func afterLine(src []byte, end int) int {
	for end < len(src) && src[end] == '\r' {
		end++
	}
	if end < len(src) && src[end] == '\n' {
		end++
	}
	return end
}

// lineSlot returns the whole lines of a range with the line end before them, or after them at the
// start of the document. Blank reports that one blank line next to them goes too.
func lineSlot(src []byte, start, end int, blank bool) patch {
	start = lineStart(src, start)
	if start == 0 {
		end = afterLine(src, end)
		if next := lineEnd(src, end); blank && next > end-1 && len(bytes.TrimSpace(src[end:next])) == 0 {
			end = afterLine(src, next)
		}
		return patch{off: 0, del: end}
	}
	start = beforeLine(src, start)
	if above := lineStart(src, start); blank && above > 0 && len(bytes.TrimSpace(src[above:start])) == 0 {
		start = beforeLine(src, above)
	}
	return patch{off: start, del: end - start}
}
