package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestTokenFile: the token of a Computer is read anew for each connection, and a file that holds
// anything else than one token is refused.
func TestTokenFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	hub, err := computerHub(func(string) (string, bool) { return "", false }, computerFlags{hub: defaultHub, tokenFile: file})
	if err != nil {
		t.Fatal(err)
	}
	const notThere = "token"
	for _, tt := range []struct {
		text, want, err string
	}{
		{"", "", notThere}, {"first\n", "first", ""}, {" second ", "second", ""}, {"a\nb\n", "", "one token on one line"}, {" \n", "", "one token on one line"},
		{strings.Repeat("x", maxTokenFile+1), "", "one token on one line"},
	} {
		if tt.text != "" {
			if err := os.WriteFile(file, []byte(tt.text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		got, err := hub.TokenSource()
		if got != tt.want || (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%.20q: %q, %v", tt.text, got, err)
		}
	}
	if _, err := computerHub(os.LookupEnv, computerFlags{hub: defaultHub, token: "x", tokenFile: file}); err == nil {
		t.Error("--token and --token-file together are accepted")
	}
}
