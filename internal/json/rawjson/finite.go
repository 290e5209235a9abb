package rawjson

import (
	"fmt"
)

// Finite returns data with null in place of the words NaN, Infinity and
// -Infinity, and how many it replaced. JSON has no such numbers, but Python's
// json module and others write them for missing values. Words inside strings
// stay. Data without such a word is returned as it is.
//
// Finite does not check the rest of data: [Valid] does.
func Finite(data []byte) (out []byte, replaced int) {
	if !Contains(data, "NaN") && !Contains(data, "Infinity") {
		return data, 0
	}
	copied := 0 // data before it is in out
	for i := 0; i < len(data); {
		switch c := data[i]; c {
		case '"':
			end, err := skipString(data, i)
			if err != nil {
				i = len(data) // behind a broken string, keys and values look alike
				continue
			}
			i = end
			continue
		case 'N', 'I', '-':
			if n := notFinite(data, i); n > 0 {
				out = append(append(out, data[copied:i]...), "null"...)
				i += n
				copied = i
				replaced++
				continue
			}
		}
		i++
	}
	if replaced == 0 {
		return data, 0
	}
	return append(out, data[copied:]...), replaced
}

// notFinite returns the length of the word at data[i] that stands for a number
// that is not finite, 0 if there is none.
func notFinite(data []byte, i int) int {
	if i > 0 && inWord(data[i-1]) {
		return 0
	}
	for _, word := range [...]string{"NaN", "Infinity", "-Infinity"} {
		end := i + len(word)
		if len(data) >= end && string(data[i:end]) == word && (len(data) == end || !inWord(data[end])) {
			return len(word)
		}
	}
	return 0
}

// inWord reports whether c belongs to the word or number next to it.
func inWord(c byte) bool {
	return c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z' || c == '_' || c == '-' || c == '+' || c == '.' || c >= 0x80
}

// FiniteNote says to a reader that [Finite] replaced n values.
func FiniteNote(n int) string {
	if n == 1 {
		return "1 value was NaN or infinite and is null here: JSON has no such numbers"
	}
	return fmt.Sprintf("%d values were NaN or infinite and are null here: JSON has no such numbers", n)
}
