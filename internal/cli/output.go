package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/weir-mcp/weir/internal/text/visible"
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
