package seal

import (
	"encoding/base64"
	"strings"
	"testing"
)

func key(t *testing.T, fill string) *Key {
	t.Helper()
	k, err := NewKey(base64.RawURLEncoding.EncodeToString([]byte(strings.Repeat(fill, keyBytes))))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// TestSeal: a text opens with its key, its purpose and its context, whole and unchanged, and with
// nothing else.
func TestSeal(t *testing.T) {
	k := key(t, "a")
	sealed := k.Seal("session", []byte("secret"), []byte("/mcp"))
	if strings.Contains(sealed, "secret") || sealed == k.Seal("session", []byte("secret"), []byte("/mcp")) {
		t.Error("the text shows, or is the same twice")
	}
	if plain, ok := key(t, "a").Open("session", sealed, []byte("/mcp")); !ok || string(plain) != "secret" {
		t.Errorf("%q, %v", plain, ok)
	}
	for what, open := range map[string]func() ([]byte, bool){
		"another key":     func() ([]byte, bool) { return key(t, "b").Open("session", sealed, []byte("/mcp")) },
		"another purpose": func() ([]byte, bool) { return k.Open("task", sealed, []byte("/mcp")) },
		"another context": func() ([]byte, bool) { return k.Open("session", sealed, []byte("/mcp/x")) },
		"none":            func() ([]byte, bool) { return k.Open("session", "", []byte("/mcp")) },
		"cut":             func() ([]byte, bool) { return k.Open("session", sealed[:len(sealed)-4], []byte("/mcp")) },
		"too long":        func() ([]byte, bool) { return k.Open("session", strings.Repeat("A", maxSealed+1), []byte("/mcp")) },
	} {
		if plain, ok := open(); ok || plain != nil {
			t.Errorf("%s: opens as %q", what, plain)
		}
	}
	for i := range sealed {
		other := byte('A')
		if sealed[i] == other {
			other = 'B'
		}
		if plain, ok := k.Open("session", sealed[:i]+string(other)+sealed[i+1:], []byte("/mcp")); ok {
			t.Fatalf("with another character at %d it opens as %q", i, plain)
		}
	}
	for _, wrong := range []string{"", "AAAA", strings.Repeat("!", 43)} {
		if _, err := NewKey(wrong); err == nil {
			t.Errorf("%q is a key", wrong)
		}
	}
}

// TestFormer: a key opens what former keys have sealed, and seals with itself alone.
func TestFormer(t *testing.T) {
	now := key(t, "b").With(key(t, "a"), key(t, "c"))
	for _, by := range []*Key{key(t, "a"), key(t, "b"), key(t, "c")} {
		if plain, ok := now.Open("session", by.Seal("session", []byte("secret"), []byte("/mcp")), []byte("/mcp")); !ok || string(plain) != "secret" {
			t.Errorf("%q, %v", plain, ok)
		}
		if _, ok := now.Open("session", by.Seal("session", []byte("secret"), []byte("/mcp")), []byte("/sse")); ok {
			t.Error("opens in another context")
		}
	}
	if _, ok := now.Open("session", key(t, "d").Seal("session", []byte("secret"), nil), nil); ok {
		t.Error("opens what a stranger has sealed")
	}
	sealed := now.Seal("session", []byte("secret"), nil)
	if _, ok := key(t, "a").Open("session", sealed, nil); ok {
		t.Error("a former key seals")
	}
	if _, ok := key(t, "b").Open("session", sealed, nil); !ok || string(now.Secret("x")) != string(key(t, "b").Secret("x")) {
		t.Error("it is another key")
	}
}

// TestSecret: a secret is the same for its key and its purpose, and for nothing else.
func TestSecret(t *testing.T) {
	mine := string(key(t, "a").Secret("results"))
	if len(mine) != keyBytes || mine != string(key(t, "a").Secret("results")) {
		t.Errorf("%d bytes, or others the second time", len(mine))
	}
	both := key(t, "a").With(key(t, "b")).Secrets("results")
	if len(both) != 2 || string(both[0]) != mine || string(both[1]) != string(key(t, "b").Secret("results")) {
		t.Errorf("with a former key there are %d secrets, or others", len(both))
	}
	if mine == string(key(t, "b").Secret("results")) || mine == string(key(t, "a").Secret("others")) {
		t.Error("two secrets are equal")
	}
}
