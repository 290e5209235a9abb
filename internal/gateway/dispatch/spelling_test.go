package dispatch

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestSpelled(t *testing.T) {
	for _, tt := range []struct{ uri, spelled, onDisk string }{
		{"file:///secret/b.txt", "file:///secret/b.txt", "file:///secret/b.txt"},
		{"FILE:///secret/b.txt", "file:///secret/b.txt", "file:///secret/b.txt"},
		{"file:///public/../secret/b.txt", "file:///secret/b.txt", "file:///secret/b.txt"},
		{"file:///public/%2e%2E/./secret/b.txt", "file:///secret/b.txt", "file:///secret/b.txt"},
		{"file:///../../secret/b.txt", "file:///secret/b.txt", "file:///secret/b.txt"},
		{"file:///%73ecret/b%2etxt", "file:///secret/b.txt", "file:///secret/b.txt"},
		{"file://localhost/secret/b.txt", "file:///secret/b.txt", "file:///secret/b.txt"},
		{"file://LOCALHOST:/secret/b.txt", "file:///secret/b.txt", "file:///secret/b.txt"},
		{"file:/secret/b.txt", "file:///secret/b.txt", "file:///secret/b.txt"},
		{"file:///secret/b.txt#top", "file:///secret/b.txt", "file:///secret/b.txt"},
		{" file:///sec\tret/b.txt\n", "file:///secret/b.txt", "file:///secret/b.txt"},
		{`file:\\\secret\b.txt`, "file:///secret/b.txt", "file:///secret/b.txt"},
		{"file:///secret%2fb.txt", "file:///secret%2Fb.txt", "file:///secret/b.txt"},
		{"file:////secret//b.txt", "file:////secret//b.txt", "file:///secret/b.txt"},
		{"file:///secret/b.txt?v=1", "file:///secret/b.txt?v=1", "file:///secret/b.txt"},
		{"file://elsewhere/secret/b.txt", "file://elsewhere/secret/b.txt", "file:///secret/b.txt"},
		{"file:///a b/ü", "file:///a%20b/%C3%BC", "file:///a%20b/%C3%BC"},
		{"file:///100%", "file:///100%25", "file:///100%25"},
		{"file:///a%252e", "file:///a%252e", "file:///a%252e"},
		{"file:///secret/", "file:///secret/", "file:///secret/"},
		{"file:///secret/.", "file:///secret/", "file:///secret/"},
		{"HTTP://Example.COM:80", "http://example.com/", ""},
		{"https://user@Example.com:0443/a?B=%7e#x", "https://user@example.com/a?B=~", ""},
		{"https://[::1]:443/a", "https://[::1]/a", ""},
		{"https://example.com:8443/a/", "https://example.com:8443/a/", ""},
		{"db://Users/A/../B", "db://users/B", ""},
		{"x:y", "x:y", ""},
		{"X:a/../b", "x:b", ""},
		{"urn:isbn:1", "urn:isbn:1", ""},
		{"no uri", "", ""}, {"/a/../b", "", ""}, {"1a:b", "", ""}, {":", "", ""}, {"", "", ""},
	} {
		if got := Spelled(tt.uri, false); got != tt.spelled {
			t.Errorf("spelled(%q) = %q, want %q", tt.uri, got, tt.spelled)
		}
		if got := onDisk(tt.uri, false); got != tt.onDisk {
			t.Errorf("onDisk(%q) = %q, want %q", tt.uri, got, tt.onDisk)
		}
	}
}

func TestMatchSpelled(t *testing.T) {
	for _, tt := range []struct {
		pattern, uri string
		want         bool
	}{
		{"file:///secret/*", "file:///secret/b", true},
		{"FILE://localhost/%73ecret/*", "file:///secret/b", true},
		{"file:///secret/?.txt", "file:///secret/b.txt", true},
		{"file:///a?b#*", "file:///a_b#c", true},
		{"*secret*", "db://a/secret", true},
		{"file:///secret/*", "file:///other", false},
		{"https://Example.com:443/*", "https://example.com/x", true},
	} {
		if got := matchSpelled(tt.pattern, tt.uri); got != tt.want {
			t.Errorf("%q, %q: %v", tt.pattern, tt.uri, got)
		}
	}
}

func TestFolded(t *testing.T) {
	for _, name := range []string{"danger", "DANGER", "danger ", "\tdanger", "dan\u200bger", "dan\u00adger", "\ufeffdanger", "ＤＡＮＧＥＲ", "𝐝𝐚𝐧𝐠𝐞𝐫", "danger\u3164", "dan\ufe0fger", "dan\U000e0067ger", "\u202edanger", "danger\x00", "danger\u00a0"} {
		if got := Folded(name); got != "danger" {
			t.Errorf("%q: %q", name, got)
		}
	}
	for name, want := range map[string]string{"Straße": "strasse", "STRASSE": "strasse", "Σίσυφος": Folded("ΣΊΣΥΦΟΣ"), "\u212aelvin": "kelvin", "e\u0301": "é", "dan ger": "dan ger", "": "", "дanger": "дanger"} {
		if got := Folded(name); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}

// The normal form of a normal form is itself, and so is a folded name's.
func FuzzSpelling(f *testing.F) {
	for _, s := range []string{"file:///a/../b%2f%73", "HTTP://u@H:80/%7e?q#f", "x:a/./b", "ＤrOp\u200b ß", "file:a\\..", "é%"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if once := Spelled(s, false); Spelled(once, false) != once {
			t.Errorf("%q: %q, then %q", s, once, Spelled(once, false))
		}
		if once := onDisk(s, false); onDisk(once, false) != once && !strings.Contains(once, "%25") && !strings.Contains(once, "%5C") {
			t.Errorf("%q on disk: %q, then %q", s, once, onDisk(once, false))
		}
		if utf8.ValidString(s) && isPlain(s) && Folded(s) != s {
			t.Errorf("%q: %q", s, Folded(s))
		}
	})
}
