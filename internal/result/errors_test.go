package result

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/weir-mcp/weir/internal/text"
	"github.com/weir-mcp/weir/mcp"
)

func TestCodes(t *testing.T) {
	retryable := map[Code]bool{UpstreamTimeout: true, UpstreamUnavailable: true, RateLimited: true}
	seen := map[Code]bool{}
	for _, c := range Codes() {
		if seen[c.Code] {
			t.Errorf("%s stands twice", c.Code)
		}
		seen[c.Code] = true
		if c.Retryable != retryable[c.Code] || c.Code.Retryable() != retryable[c.Code] {
			t.Errorf("%s: retryable %v", c.Code, c.Retryable)
		}
		if c.Meaning == "" || !regexp.MustCompile(`^[A-Z]+(_[A-Z]+)+$`).MatchString(string(c.Code)) {
			t.Errorf("%+v", c)
		}
	}
	if len(seen) != 16 {
		t.Errorf("%d codes, the contract has 14 and tool_run 2", len(seen))
	}
	for _, k := range mcp.Kinds {
		if !seen[Code(k.Gateway)] {
			t.Errorf("kind %s maps to the unknown code %q", k.Name, k.Gateway)
		}
	}
	if Code("NO_SUCH").Retryable() {
		t.Error("an unknown code is retryable")
	}
}

func TestErrorJSON(t *testing.T) {
	r := NewRedactor([]string{"hunter2hunter2", "hunter2hunter2-long", "on"})
	tests := []struct {
		name string
		err  *Error
		want string
	}{
		{"plain", &Error{Code: PathNotFound, Message: "nothing there", Path: "/x"},
			`{"error":"PATH_NOT_FOUND","message":"nothing there","path":"/x","retryable":false}`},
		{"retryable with details", &Error{Code: RateLimited, Message: "slow down", Details: json.RawMessage(`{"retry_after":3}`)},
			`{"error":"RATE_LIMITED","message":"slow down","path":"","retryable":true,"details":{"retry_after":3}}`},
		{"one line", &Error{Code: UpstreamError, Message: " a\n\tb\x00c\u2028d\u202e\u0085 "},
			`{"error":"UPSTREAM_ERROR","message":"a b c d","path":"","retryable":false}`},
		{"configured secrets, the longest first", &Error{Code: UpstreamError, Message: "on hunter2hunter2-long and hunter2hunter2"},
			`{"error":"UPSTREAM_ERROR","message":"on [redacted] and [redacted]","path":"","retryable":false}`},
		{"no HTML escaping", &Error{Code: ArgsInvalid, Message: `a<b & "c"`},
			`{"error":"ARGS_INVALID","message":"a<b & \"c\"","path":"","retryable":false}`},
	}
	for _, tt := range tests {
		if got := string(tt.err.AppendJSON(nil, r)); got != tt.want {
			t.Errorf("%s:\n got %s\nwant %s", tt.name, got, tt.want)
		}
	}
}

func TestErrorMessageIsBounded(t *testing.T) {
	for _, message := range []string{strings.Repeat("é ", 1000), strings.Repeat("x", 10000), strings.Repeat("a\n", 150), strings.Repeat("\x01", 500)} {
		var out struct{ Message string }
		if err := json.Unmarshal((&Error{Code: UpstreamError, Message: message}).AppendJSON(nil, nil), &out); err != nil {
			t.Fatal(err)
		}
		if n := utf8.RuneCountInString(out.Message); n > 300 {
			t.Errorf("%d characters", n)
		}
		if strings.IndexFunc(out.Message, unicode.IsControl) >= 0 {
			t.Errorf("control characters in %q", out.Message)
		}
	}
	if got := text.Line(strings.Repeat("x", 301), 300); got != strings.Repeat("x", 299)+"…" {
		t.Errorf("301 characters become %d ending %q", utf8.RuneCountInString(got), got[len(got)-5:])
	}
	if got := text.Line(strings.Repeat("x", 300), 300); got != strings.Repeat("x", 300) {
		t.Errorf("300 characters are cut to %q", got)
	}
}

func TestRedactPatterns(t *testing.T) {
	tests := []struct{ in, want string }{
		{"Authorization: Bearer abc.def-123456", "Authorization: Bearer [redacted]"},
		{"dial https://ann:s3cret@host/x", "dial https://[redacted]@host/x"},
		{"api_key=AbC123def&x=1", "api_key=[redacted]&x=1"},
		{`{"password": "pa55word"}`, `{"password": "[redacted]"}`},
		{"bad key sk-abcdefghijklmnopqrstuvwx", "bad key [redacted]"},
		{"ghp_0123456789abcdefghijABCDEFGHIJ was refused", "[redacted] was refused"},
		{"AKIAABCDEFGHIJKLMNOP", "[redacted]"},
		{"the token is missing", "the token is missing"},
		{"password: is required", "password: is required"},
		{"port 8080 refused", "port 8080 refused"},
	}
	for _, tt := range tests {
		if got := (*Redactor)(nil).Redact(tt.in); got != tt.want {
			t.Errorf("Redact(%q) = %q, want %q", tt.in, got, tt.want)
		}
	}
}

func TestErrorIs(t *testing.T) {
	cause := errors.New("cause")
	err := fmt.Errorf("calling: %w", &Error{Code: ViewFailed, Message: "m", Cause: cause})
	if !errors.Is(err, &Error{Code: ViewFailed}) || errors.Is(err, &Error{Code: ArgsInvalid}) || !errors.Is(err, cause) {
		t.Errorf("errors.Is is wrong about %v", err)
	}
}

func TestRedactResults(t *testing.T) {
	r := NewRedactor([]string{"hunter2", `pass"wörd`, "12345678"})
	for _, tt := range []struct{ in, want string }{
		{`{ "a" : "x hunter2 y", "n":12345678, "b":[1.50,"é\u00e9"]}`, `{ "a" : "x [redacted] y", "n":12345678, "b":[1.50,"é\u00e9"]}`},
		{`["pass\"w\u00f6rd"]`, `["[redacted]"]`},
		{`{"hunter2":"token abc"}`, `{"[redacted]":"token abc"}`},
		{`["Bearer abcdefghijkl","\u0068unter2\n"]`, `["Bearer [redacted]","[redacted]\n"]`},
		{`["https://ann:pw@h/x?next_token=17"]`, `["https://[redacted]@h/x?next_token=17"]`},
		{`["{\"p\":\"pass\\\"wörd\"}"]`, `["{\"p\":\"[redacted]\"}"]`},
		{`["a`, `["a`},
		{`7`, `7`},
	} {
		if got := string(r.Results([]byte(tt.in))); got != tt.want {
			t.Errorf("%s becomes %s, want %s", tt.in, got, tt.want)
		}
	}
	if got := string((*Redactor)(nil).Results([]byte(`"hunter2"`))); got != `"hunter2"` {
		t.Errorf("without secrets: %s", got)
	}
}
