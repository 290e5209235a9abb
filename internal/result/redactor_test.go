package result

import (
	"strings"
	"testing"
)

func TestRedact(t *testing.T) {
	for in, want := range map[string]string{
		"password=correcthorse in the DSN":                                  "password=[redacted] in the DSN",
		`{"client_secret": "letmein-please", "user":"ann"}`:                 `{"client_secret": "[redacted]", "user":"ann"}`,
		"GET /x?api_key=abcdefgh&page=2":                                    "GET /x?api_key=[redacted]&page=2",
		"Authorization: Token abcdefghij":                                   "Authorization: Token [redacted]",
		"authorization: bearer abcdefghij":                                  "authorization: bearer [redacted]",
		"key sk_live_0123456789abcdefgh was revoked":                        "key [redacted] was revoked",
		"ASIAABCDEFGHIJKLMNOP and npm_0123456789abcdefghijABCDEFGHIJ012345": "[redacted] and [redacted]",
		"token: missing":                         "token: missing",
		"the token is expired":                   "the token is expired",
		"authorization: required":                "authorization: required",
		"password must have 8 characters":        "password must have 8 characters",
		"api-key: 12345678":                      "api-key: [redacted]",
		"https://ann:letmein@db.internal:5432/x": "https://[redacted]@db.internal:5432/x",
	} {
		for _, r := range []*Redactor{nil, NewRedactor([]string{knownSecret})} {
			if got := r.Redact(in); got != want {
				t.Errorf("%q became %q, want %q", in, got, want)
			}
			if got := r.Redact(want); got != want {
				t.Errorf("%q became %q the second time", want, got)
			}
		}
	}
}

func TestContainsFold(t *testing.T) {
	for _, tt := range []struct {
		s, lower string
		want     bool
	}{
		{"", "a", false}, {"a", "a", true}, {"xBEARER", "bearer", true}, {"bbbearer", "bearer", true}, {"beare", "bearer", false}, {"Bb bEaReR", "bearer", true}, {"x-y", "-y", true}, {"beaber", "bearer", false},
	} {
		if got := containsFold(tt.s, tt.lower); got != tt.want {
			t.Errorf("%q in %q: %v", tt.lower, tt.s, got)
		}
	}
}

// Looking for secrets where there are none must cost little: it is done for
// every result.
func BenchmarkRedactText(b *testing.B) {
	r := NewRedactor([]string{knownSecret, "another-secret", "a-third-one"})
	text := strings.Repeat("Some words of a usual result, with a name: value here and there.\n", 30)
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		r.Text(text)
	}
}

const knownSecret = "conf1gured-s3cret"
