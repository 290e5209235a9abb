package rawjson

import (
	"fmt"
	"io"
)

// Finite returns data with null in place of the words NaN, Infinity and
// -Infinity, and how many it replaced. JSON has no such numbers, but Python's
// json module and others write them for missing values. Words inside strings
// stay. Data without such a word is returned as it is.
//
// Finite does not check the rest of data: [Valid] does.
func Finite(data []byte) (out []byte, replaced int) {
	replaced, size := CountInfinite(data)
	if replaced == 0 {
		return data, 0
	}
	out = make([]byte, 0, size)
	copied := 0 // data before it is in out
	eachInfinite(data, func(start, end int) bool {
		out = append(append(out, data[copied:start]...), "null"...)
		copied = end
		return true
	})
	return append(out, data[copied:]...), replaced
}

// CountInfinite returns how many words Finite replaces in data, and the size of its copy.
func CountInfinite(data []byte) (n, size int) {
	size = len(data)
	eachInfinite(data, func(start, end int) bool {
		n++
		size += len("null") - (end - start)
		return true
	})
	return n, size
}

// WriteFinite writes to w what Finite returns.
func WriteFinite(w io.Writer, data []byte) error {
	var err error
	copied := 0
	eachInfinite(data, func(start, end int) bool {
		if _, err = w.Write(data[copied:start]); err == nil {
			_, err = io.WriteString(w, "null")
		}
		copied = end
		return err == nil
	})
	if err == nil {
		_, err = w.Write(data[copied:])
	}
	return err
}

// eachInfinite calls f with the place of each word that Finite replaces, until f returns false.
func eachInfinite(data []byte, f func(start, end int) bool) {
	if !Contains(data, "NaN") && !Contains(data, "Infinity") {
		return
	}
	for i := 0; i < len(data); i++ {
		switch data[i] {
		case '"':
			end, err := skipString(data, i)
			if err != nil {
				return // behind a broken string, keys and values look alike
			}
			i = end - 1
		case 'N', 'I', '-':
			if n := notFinite(data, i); n > 0 {
				if !f(i, i+n) {
					return
				}
				i += n - 1
			}
		}
	}
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
