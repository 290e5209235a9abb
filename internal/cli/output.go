package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/weir-mcp/weir/internal/visible"
)

// printJSON prints an indented value for programs, without HTML escapes. Raw JSON keeps its numbers
// and key order.
func printJSON(w io.Writer, v any) error {
	raw, ok := v.(json.RawMessage)
	if !ok {
		var out bytes.Buffer
		encoder := json.NewEncoder(&out)
		encoder.SetEscapeHTML(false)
		if err := encoder.Encode(v); err != nil {
			return fmt.Errorf("writing JSON: %w", err)
		}
		raw = out.Bytes()
	}
	var out bytes.Buffer
	if err := json.Indent(&out, bytes.TrimSpace(raw), "", "  "); err != nil {
		return fmt.Errorf("the answer is not JSON: %w", err)
	}
	out.WriteByte('\n')
	text := out.Bytes()
	if t, ok := w.(terminal); ok && t.screen() {
		text = visible.JSON(text) // escapes control characters; the value stays the same
	}
	_, err := w.Write(text)
	return err
}

// A cell is a piece of text in a style.
type cell struct{ style, text string }

// printTable prints rows in columns. On a screen it cuts the last column at the edge and prints the
// header in bold; elsewhere it cuts and colours nothing.
func printTable(t terminal, header []string, rows [][]cell) error {
	return printNotedTable(t, header, rows, nil)
}

// printNotedTable prints a table as printTable does, with a note below some rows. Notes are
// wrapped, never cut. Pipes get no notes. notes may be nil.
func printNotedTable(t terminal, header []string, rows [][]cell, notes []string) error {
	widths := make([]int, len(header))
	for i, h := range header {
		widths[i] = utf8.RuneCountInString(h)
	}
	for _, row := range rows {
		for i, c := range row {
			row[i].text = strings.Join(strings.Fields(t.clean(c.text)), " ")
			widths[i] = max(widths[i], utf8.RuneCountInString(row[i].text))
		}
	}
	line := func(cells []cell) error {
		used := 0
		var b strings.Builder
		for i, c := range cells {
			text := c.text
			if i == len(cells)-1 {
				if t.screen() {
					text = cut(text, max(t.width-used, 10))
				}
				b.WriteString(t.paint(c.style, text))
				break
			}
			b.WriteString(t.paint(c.style, text))
			pad := widths[i] - utf8.RuneCountInString(text) + 2
			b.WriteString(strings.Repeat(" ", pad))
			used += widths[i] + 2
		}
		_, err := fmt.Fprintln(t, strings.TrimRight(b.String(), " "))
		return err
	}
	head := make([]cell, len(header))
	for i, h := range header {
		head[i] = cell{bold, h}
	}
	if err := line(head); err != nil {
		return err
	}
	for i, row := range rows {
		if err := line(row); err != nil {
			return err
		}
		if notes == nil || notes[i] == "" || !t.screen() {
			continue
		}
		for _, text := range wrap(t.clean(notes[i]), t.width-noteIndent) {
			if _, err := fmt.Fprintf(t, "%*s%s\n", noteIndent, "", t.paint(red, text)); err != nil {
				return err
			}
		}
	}
	return nil
}

// noteIndent is the indentation of notes.
const noteIndent = 2

// wrap breaks a text into lines of at most width characters, between words if possible.
func wrap(text string, width int) (lines []string) {
	width = max(width, 10)
	line, used := "", 0
	for _, word := range strings.Fields(text) {
		n := utf8.RuneCountInString(word)
		if used > 0 && used+1+n > width {
			lines = append(lines, line)
			line, used = "", 0
		}
		for ; used == 0 && n > width; n -= width { // a word longer than a line
			cut := len(string([]rune(word)[:width]))
			lines, word = append(lines, word[:cut]), word[cut:]
		}
		if used > 0 {
			line, used = line+" ", used+1
		}
		line, used = line+word, used+n
	}
	if used > 0 {
		lines = append(lines, line)
	}
	return lines
}

// counted returns a number with its noun: 1 server, 2 servers.
func counted(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// thousands returns a number with a comma before each group of three digits.
func thousands(n int) string {
	digits := strconv.Itoa(n)
	for at := len(digits) - 3; at > 0 && digits[at-1] != '-'; at -= 3 {
		digits = digits[:at] + "," + digits[at:]
	}
	return digits
}

// sizeText returns a number of bytes for people.
func sizeText(n int) string {
	switch {
	case n < 1<<10:
		return fmt.Sprintf("%d B", n)
	case n < 1<<20:
		return fmt.Sprintf("%.1f KB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%.1f MB", float64(n)/(1<<20))
}
