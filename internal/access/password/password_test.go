package password_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/access/password"
)

func Example() {
	hash := password.Hash("correct horse battery staple")
	fmt.Println(strings.HasPrefix(hash, "$argon2id$v=19$m=65536,t=3,p=1$"), password.Fits(hash, "correct horse battery staple"), password.Fits(hash, "wrong"))
	// Output: true true false
}

// TestCheck: texts that are no hash, and hashes that cost too little or too much, are refused.
func TestCheck(t *testing.T) {
	const salt, key = "c2FsdHNhbHRzYWx0c2FsdA", "aGFzaGhhc2hoYXNoaGFzaGhhc2hoYXNoaGFzaGhhc2g"
	for text, ok := range map[string]bool{
		"$argon2id$v=19$m=65536,t=3,p=1$" + salt + "$" + key: true,
		"$argon2id$v=19$m=8192,t=1,p=1$" + salt + "$" + key:  true,
		"":       false,
		"secret": false,
		"$argon2i$v=19$m=65536,t=3,p=1$" + salt + "$" + key:    false,
		"$argon2id$v=16$m=65536,t=3,p=1$" + salt + "$" + key:   false,
		"$argon2id$v=19$m=1024,t=3,p=1$" + salt + "$" + key:    false,
		"$argon2id$v=19$m=4194304,t=3,p=1$" + salt + "$" + key: false,
		"$argon2id$v=19$m=65536,t=99,p=1$" + salt + "$" + key:  false,
		"$argon2id$v=19$m=65536,t=3,p=1$$" + key:               false,
		"$argon2id$v=19$m=65536,t=3,p=1$" + salt + "$":         false,
		"$argon2id$v=19$m=65536,t=3,p=1$" + salt + "$***":      false,
	} {
		if err := password.Check(text); (err == nil) != ok {
			t.Errorf("%q: %v", text, err)
		}
		if !ok && password.Fits(text, "") {
			t.Errorf("%q fits", text)
		}
	}
}
