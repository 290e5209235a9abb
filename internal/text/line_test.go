package text

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestLine(t *testing.T) {
	for _, tt := range []struct {
		in    string
		limit int
		want  string
	}{
		{"plain", 10, "plain"},
		{"  a\r\n\tb  ", 10, "a b"},
		{"a\u2028b\u0000c", 10, "a b c"},
		{"a\u200bb", 10, "ab"},
		{"0123456789", 10, "0123456789"},
		{"0123456789x", 10, "012345678…"},
		{"0123456 89x", 9, "0123456…"},
		{"éééé", 3, "éé…"},
	} {
		if got := Line(tt.in, tt.limit); got != tt.want {
			t.Errorf("Line(%q, %d) = %q, want %q", tt.in, tt.limit, got, tt.want)
		}
	}
}

func TestFit(t *testing.T) {
	for in, want := range map[string]string{"": "", "ééé": "ééé", "abc": "abc", "abcd": "ab…", "éééé": "éé…"} {
		if got := Fit(in, 3); got != want {
			t.Errorf("Fit(%q, 3) = %q, want %q", in, got, want)
		}
	}
	if got := Cut("éab", 2); got != "éa" {
		t.Errorf("Cut = %q", got)
	}
}

func TestPlural(t *testing.T) {
	for n, want := range map[int]string{0: "0 rows", 1: "1 row", 2: "2 rows"} {
		if got := Plural(n, "row"); got != want {
			t.Errorf("Plural(%d) = %q, want %q", n, got, want)
		}
	}
}

func TestValue(t *testing.T) {
	long := strings.Repeat("1", 100)
	for in, want := range map[string]string{
		"": "nothing", " 12 ": "12", `"a\"b"`: `the string "a\"b"`, "{}": "an object", "[1]": "an array", long: long[:39] + "…",
	} {
		if got := Value([]byte(in)); got != want {
			t.Errorf("Value(%s) = %s, want %s", in, got, want)
		}
	}
}

func FuzzLine(f *testing.F) {
	f.Add("a\u200b\u200bb\nc", 3)
	f.Fuzz(func(t *testing.T, s string, limit int) {
		limit = max(limit%100, 1)
		if line := Line(s, limit); utf8.ValidString(s) && utf8.RuneCountInString(line) > limit || strings.ContainsAny(line, "\n\r\t") {
			t.Fatalf("Line(%q, %d) = %q", s, limit, line)
		}
	})
}

func TestDistance(t *testing.T) {
	for pair, want := range map[[2]string]int{{"", ""}: 0, {"abc", ""}: 3, {"abc", "acb"}: 1, {"abc", "xbc"}: 1, {"kitten", "sitting"}: 3} {
		if got := Distance(pair[0], pair[1]); got != want {
			t.Errorf("Distance(%q, %q) = %d, want %d", pair[0], pair[1], got, want)
		}
	}
}

// Cut looks at eight characters at a time where they are ASCII, and cuts what is not as it cuts the
// rest.
func FuzzCut(f *testing.F) {
	for _, s := range []string{"", "eight by", "nine byte", "1234567é9", "12345678é", "\xff\xfe345678\xc3", strings.Repeat("one é ", 9)} {
		for _, n := range []int{0, 1, 7, 8, 9, 20, 45} {
			f.Add(s, n)
		}
	}
	f.Fuzz(func(t *testing.T, s string, n int) {
		if n < 0 {
			return
		}
		want := s
		for i := range s {
			if n == utf8.RuneCountInString(s[:i]) {
				want = s[:i]
				break
			}
		}
		if got := Cut(s, n); got != want {
			t.Errorf("Cut(%q, %d) = %q, want %q", s, n, got, want)
		}
	})
}
