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
		if got := matchSpelled(tt.pattern, Spelling{URI: tt.uri}); got != tt.want {
			t.Errorf("%q, %q: %v", tt.pattern, tt.uri, got)
		}
	}
}

// A lenient spelling is compared with that of the pattern, and no other spelling is.
func TestMatchLenient(t *testing.T) {
	of := lenient("db://a/x;v=1", false)
	if of != "db://a/x" || !matchSpelled("db://a/x;v=*", Spelling{of, true}) || matchSpelled("db://a/x;v=*", Spelling{URI: of}) {
		t.Errorf("%q", of)
	}
}

func TestLenient(t *testing.T) {
	for uri, want := range map[string]string{
		"file:///secret/b":                    "file:///secret/b",
		"file:///s%2565cret/b":                "file:///secret/b",
		"file:///s%25252565cret%252fb":        "file:///secret/b",
		"file:///secret%c0%afb":               "file:///secret/b",
		"file:///secret%e0%80%af%f0%80%81%a2": "file:///secret/b",
		"file:///secret%25c0%25afb":           "file:///secret/b",
		"file:///ｓecret／b":                    "file:///secret/b",
		"file:///secret∕b":                    "file:///secret/b",
		"file:///secret;x=1/b;y":              "file:///secret/b",
		"https://h/admin;x/b?q=a;b":           "https://h/admin/b?q=a;b",
		"https://h/a%252fb":                   "https://h/a/b",
		"file:///100%25":                      "file:///100%25",
		"file:///%C3%84/%C0.txt":              "file:///%C3%84/%C0.txt",
		"data:text/plain;base64,YQ/Yg==":      "data:text/plain/Yg==",
		"no uri":                              "",
	} {
		if got := lenient(uri, false); got != want {
			t.Errorf("%s: %s, want %s", uri, got, want)
		}
	}
}

// A URI whose dots servers follow to different places is refused, and no other.
func TestUnclear(t *testing.T) {
	for _, uri := range []string{
		"file:///public/a#/../../secret/b", "file:///public/a?/../../secret/b", "file:///public/#/../../secret/b", "file:///x#/../secret/b", `file:///x?\..\secret`,
		"file:///public/%252e%252e/secret/b", "file:///public/%25252e./secret/b", "file:///public/..;/secret/b", "file:///public/..;a=b/secret/b", "file:///public/．．/secret/b",
		"file:///public/%EF%BC%8E%EF%BC%8E/secret/b", "file:///public/‥/secret/b", "file:///public/%c0%ae%c0%ae/secret/b", "file:///public%c0%af..%c0%afsecret/b",
		"file:///public/..%c0%afsecret/b", "file:///public/.%00./secret/b", "file:///public/.%2500./secret/b", "file:///secret/b%00.png", "file:///public/.\t./secret", "file:///public/.%e2%80%8b./secret/b",
		"file:///public/.%ff./secret/b", "file:///public/..%20/secret/b", "file:///public/a%2fb%2f../../secret/b", "file:///public/a%2fb%2fc?/../../secret/x", "file:///public/x%3f/..%2f../secret",
		"file:///public%2f..%2fsecret/b", "db://public/../secret/b", "db:public/../secret", "https://h/public/..;/admin", "https://h/public/%252e%252e/admin", "https://h/public%2f..%2fadmin",
	} {
		if Unclear(uri) == "" {
			t.Errorf("%s is clear", uri)
		}
	}
	for _, uri := range []string{
		"file:///secret/b", "file:///public/../secret/b", "file:///public/%2e%2E/secret/b", "file:///a/b#c", "file:///a/b?c=../d", "file:///100%25/a%20b", "file:///ü/%C0.txt", "file:///a/.../b", "file:///a/..b/c..",
		"file:///a;v=1/b", "https://h/a/../b", "https://h/a?next=/../b", "https://h/a#/../b", "db://a/b?c#d", "pkg://a/...", "git:main..next", "x:y", "no uri/../x", "data:text/plain;base64,Li4v/Li4=", "",
	} {
		if why := Unclear(uri); why != "" {
			t.Errorf("%s: %s", uri, why)
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
	for _, s := range []string{"file:///a%252e%c0%af;x/．．/b", "file:///a/../b%2f%73", "HTTP://u@H:80/%7e?q#f", "x:a/./b", "ＤrOp\u200b ß", "file:a\\..", "é%"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if once := Spelled(s, false); Spelled(once, false) != once {
			t.Errorf("%q: %q, then %q", s, once, Spelled(once, false))
		}
		if once := onDisk(s, false); onDisk(once, false) != once && !strings.Contains(once, "%25") && !strings.Contains(once, "%5C") {
			t.Errorf("%q on disk: %q, then %q", s, once, onDisk(once, false))
		}
		if once := unescapedAll(s); unescapedAll(once) != once {
			t.Errorf("%q without escapes: %q, then %q", s, once, unescapedAll(once))
		}
		_, _ = Unclear(s), Spellings(s)
		if utf8.ValidString(s) && isPlain(s) && Folded(s) != s {
			t.Errorf("%q: %q", s, Folded(s))
		}
	})
}
