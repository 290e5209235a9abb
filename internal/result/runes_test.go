package result

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// runeCount counts as utf8.RuneCount does, what is no UTF-8 included.
func FuzzRuneCount(f *testing.F) {
	for _, s := range []string{"", "seven b", "eight by", "naïve", "1234567é", "12345678é", "😀😀😀😀", "1234567\xe2\x82", "\xff\xfe12345678901234\xc3", "a\xed\xa0\x80bcdefghijkl", "１２３４５６７８９"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if got, want := runeCount(b), utf8.RuneCount(b); got != want {
			t.Errorf("runeCount(%q) = %d, want %d", b, got, want)
		}
	})
}

func FuzzMentionsErrors(f *testing.F) {
	for _, s := range []string{"", "error", "an Error", "ERROR", "eRROR", "rror", "mirror", "mirror, then error", "rrrorerror", "terror", "Errors", "err or", "ERRORerror"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		want := strings.Contains(s, "error") || strings.Contains(s, "Error") || strings.Contains(s, "ERROR")
		if got := mentionsErrors(s); got != want {
			t.Errorf("mentionsErrors(%q) = %v", s, got)
		}
	})
}
