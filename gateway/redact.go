package gateway

import (
	"bytes"
	"cmp"
	"regexp"
	"slices"
	"strings"

	"github.com/weir-mcp/weir/rawjson"
)

// redacted stands where a secret stood.
const redacted = "[redacted]"

// Patterns of secrets that no configuration lists. They are matched in error
// messages only: a result is data, and what merely looks like a secret stays.
var secretPatterns = []struct {
	pattern *regexp.Regexp
	with    string
}{
	{regexp.MustCompile(`(?i)\b(bearer|basic)\s+[a-z0-9._~+/=-]{8,}`), "$1 " + redacted},
	{regexp.MustCompile(`://[^/\s:@]+:[^/\s@]+@`), "://" + redacted + "@"},
	{regexp.MustCompile(`(?i)((?:api|access|private|secret|auth|client)[_-]?(?:key|token|secret)|authorization|cookie|passwd|password|token|secret)(["']?\s*[=:]\s*["']?)[^\s"',;&]*[0-9][^\s"',;&]*`), "$1$2" + redacted},
	{regexp.MustCompile(`\b(?:sk-[A-Za-z0-9_-]{16,}|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}|xox[abeprs]-[\w-]{10,}|AKIA[0-9A-Z]{16}|AIza[\w-]{30,}|eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*)`), redacted},
	{regexp.MustCompile(`-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)`), redacted},
}

// Redactor removes secrets from what a model gets to read. The zero value and
// nil know no configured secrets and still remove what looks like one. It is
// immutable and safe for concurrent use.
type Redactor struct{ secrets *strings.Replacer }

// minSecret is the shortest configured value that is redacted: "1" or "on" in
// an environment is no secret, and removing it would ruin every message.
const minSecret = 6

// NewRedactor returns a Redactor for the given secret values.
func NewRedactor(secrets []string) *Redactor {
	kept := make([]string, 0, len(secrets))
	for _, s := range secrets {
		if len(s) >= minSecret {
			kept = append(kept, s)
		}
	}
	if len(kept) == 0 {
		return &Redactor{}
	}
	// The longest first: a secret that starts with another one goes whole.
	slices.SortFunc(kept, func(a, b string) int {
		if c := cmp.Compare(len(b), len(a)); c != 0 {
			return c
		}
		return strings.Compare(a, b)
	})
	pairs := make([]string, 0, 2*len(kept))
	for _, s := range slices.Compact(kept) {
		pairs = append(pairs, s, redacted)
	}
	return &Redactor{secrets: strings.NewReplacer(pairs...)}
}

// maxRedacted bounds how much of a message is looked at; far less is shown.
const maxRedacted = 64 << 10

// Redact returns s without the secrets it knows and without what looks like
// one. Only the first 64 KiB of s are kept.
func (r *Redactor) Redact(s string) string {
	s = s[:min(len(s), maxRedacted)]
	if r != nil && r.secrets != nil {
		s = r.secrets.Replace(s)
	}
	for i := range secretPatterns {
		s = secretPatterns[i].pattern.ReplaceAllString(s, secretPatterns[i].with)
	}
	return s
}

// Results returns a raw JSON value in which no string holds a configured secret
// any more. What merely looks like one stays: a result is data. Everything but
// the strings concerned keeps its bytes; where there is nothing to replace, raw
// itself is returned.
func (r *Redactor) Results(raw []byte) []byte {
	if r == nil || r.secrets == nil {
		return raw
	}
	var out []byte
	done := 0 // raw up to here is in out
	for i := 0; i < len(raw); {
		n := bytes.IndexByte(raw[i:], '"')
		if n < 0 {
			break
		}
		start := i + n
		end, err := rawjson.Skip(raw, start)
		if err != nil {
			return raw // no JSON: whoever reads it says so
		}
		i = end
		text := rawjson.Text(raw[start:end])
		if clean := r.secrets.Replace(text); clean != text {
			out = rawjson.AppendString(append(out, raw[done:start]...), clean)
			done = end
		}
	}
	if done == 0 {
		return raw
	}
	return append(out, raw[done:]...)
}
