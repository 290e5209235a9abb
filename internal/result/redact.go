package result

import (
	"bytes"
	"regexp"
	"strings"
	"unsafe"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/text/lazy"
	"github.com/weir-mcp/weir/internal/text/redact"
)

// redacted replaces a secret.
const redacted = redact.Mark

// secretPattern finds secrets that the configuration does not list.
type secretPattern struct {
	pattern func() *regexp.Regexp
	with    string
	// hints are texts of which one must occur before the pattern is tried; finding them costs a
	// hundredth of the pattern. With fold they are lower-case and match any case.
	hints []string
	fold  bool
}

// secretShapes match secrets by their own form, anywhere, in addition to those of [redact.ReplaceShapes].
var secretShapes = []secretPattern{
	{lazy.Pattern(`(?i)\b(bearer|basic)\s+[a-z0-9._~+/=-]{8,}`), "$1 " + redacted, []string{"bearer", "basic"}, true},
	{lazy.Pattern(`://[^/\s:@"]*:[^/\s@"]+@`), "://" + redacted + "@", []string{"://"}, false},
	{lazy.Pattern(`-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)`), redacted, []string{"PRIVATE KEY"}, false},
}

// secretAssignments match values under a telling name. They apply to messages only: in a result,
// next_token=17 is needed by the next call. After a colon and without quotes, only a text with a
// digit counts as a value, because "token: missing" is an error message.
var secretAssignments = []secretPattern{
	{lazy.Pattern(`(?i)(authorization["']?\s*[=:]\s*["']?[a-z]+\s+)[^\s"',;&]{6,}`), "$1" + redacted, []string{"authorization"}, true},
	{lazy.Pattern(`(?i)((?:api|access|private|secret|auth|client)[_-]?(?:key|token|secret)|passwd|password|token|secret)(=["']?|["']\s*:\s*["'])[^\s"',;&]{6,}`), "$1$2" + redacted,
		[]string{"key", "token", "secret", "passwd", "password"}, true},
	{lazy.Pattern(`(?i)((?:api|access|private|secret|auth|client)[_-]?(?:key|token|secret)|authorization|cookie|passwd|password|token|secret)(["']?\s*[=:]\s*["']?)[^\s"',;&]*[0-9][^\s"',;&]*`), "$1$2" + redacted,
		[]string{"key", "token", "secret", "authorization", "cookie", "passwd", "password"}, true},
}

// resultAssignments are secretAssignments for results. A name such as token or next_token stays: the
// next call may need its value.
var resultAssignments = []secretPattern{
	{lazy.Pattern(`(?i)(` + credentialNames + `)(=["']?|["']\s*:\s*["'])[^\s"',;&]{6,}`), "$1$2" + redacted, credentialHints, true},
	{lazy.Pattern(`(?i)(` + credentialNames + `)(["']?\s*[=:]\s*["']?)[^\s"',;&]*[0-9][^\s"',;&]*`), "$1$2" + redacted, credentialHints, true},
}

// credentialNames match names whose values are credentials, whatever stands around them.
const credentialNames = `(?:api|access|private|secret|auth|client)[_-]?(?:key|token|secret)|passwd|password|passphrase`

var (
	credentialHints = []string{"passw", "passphrase", "key", "token", "secret"}
	credentialName  = lazy.Pattern(`(?i)^(?:[a-z0-9]+[_-])*(?:` + credentialNames + `)$`)
)

// minCredential is the length of the shortest text under such a name that counts as a credential.
const minCredential = 6

func (p *secretPattern) replace(s string) string {
	if !p.hinted(s) {
		return s
	}
	return p.pattern().ReplaceAllString(s, p.with)
}

// hinted reports whether s holds one of the hints.
func (p *secretPattern) hinted(s string) bool {
	for _, hint := range p.hints {
		if p.fold && containsFold(s, hint) || !p.fold && rawjson.Contains(unsafe.Slice(unsafe.StringData(s), len(s)), hint) {
			return true
		}
	}
	return false
}

// containsFold is strings.Contains for a lower-case ASCII text, in any case.
func containsFold(s, lower string) bool {
	first, upper := lower[0], lower[0]
	if 'a' <= first && first <= 'z' {
		upper -= 'a' - 'A'
	}
	for from := 0; from+len(lower) <= len(s); {
		rest := s[from : len(s)-len(lower)+1]
		at := strings.IndexByte(rest, first)
		if upper != first {
			limit := rest
			if at >= 0 {
				limit = rest[:at]
			}
			if other := strings.IndexByte(limit, upper); other >= 0 {
				at = other
			}
		}
		if at < 0 {
			return false
		}
		from += at
		if strings.EqualFold(s[from:from+len(lower)], lower) {
			return true
		}
		from++
	}
	return false
}

// Redactor removes secrets from texts for a model. The zero value and nil have no configured
// secrets and still remove texts that look like secrets. It is safe for concurrent use.
type Redactor struct {
	known  *redact.Set
	recent *redact.Recent
}

// NewRedactor returns a Redactor for the given secret values.
func NewRedactor(secrets []string) *Redactor { return &Redactor{known: redact.New(secrets)} }

// With returns a Redactor that also removes secrets that come and go.
func (r *Redactor) With(recent *redact.Recent) *Redactor { return &Redactor{r.known, recent} }

// maxRedacted bounds how much of a message is processed; far less is shown.
const maxRedacted = 64 << 10

// Redact returns a message without configured secrets, texts that look like secrets, and values
// under telling names. Only the first 64 KiB of s are kept.
func (r *Redactor) Redact(s string) string {
	s = r.Text(s[:min(len(s), maxRedacted)])
	for i := range secretAssignments {
		s = secretAssignments[i].replace(s)
	}
	return s
}

// Known returns a text without the configured secrets. It removes nothing else.
func (r *Redactor) Known(s string) string {
	if r == nil {
		return s
	}
	return r.recent.Replace(r.known.Replace(s))
}

// Text returns a piece of a result without configured secrets and texts that look like secrets. If
// there are none, it returns s itself.
func (r *Redactor) Text(s string) string {
	s = r.Known(s)
	for i := range secretShapes {
		s = secretShapes[i].replace(s)
	}
	return redact.ReplaceShapes(s)
}

// Results returns a raw JSON value without configured secrets, texts that look like secrets, and
// values under the names of credentials, in its strings and keys. Only these strings change. If there
// are none, it returns raw itself.
func (r *Redactor) Results(raw []byte) []byte {
	var out []byte
	done := 0      // raw[:done] has been copied to out
	named := false // the next string is the value of a credential
	for i := 0; i < len(raw); {
		n := bytes.IndexByte(raw[i:], '"')
		if n < 0 {
			break
		}
		start := i + n
		end, err := rawjson.Skip(raw, start)
		if err != nil {
			return raw // not JSON: its reader reports the error
		}
		i = end
		text := rawjson.Text(raw[start:end])
		clean := r.Text(text)
		for i := range resultAssignments {
			clean = resultAssignments[i].replace(clean)
		}
		if named && len(text) >= minCredential {
			clean = redacted
		}
		colon := rawjson.SkipSpace(raw, end)
		if named = false; colon < len(raw) && raw[colon] == ':' && len(text) < 64 && credentialName().MatchString(text) {
			value := rawjson.SkipSpace(raw, colon+1)
			named = value < len(raw) && raw[value] == '"'
		}
		if clean != text {
			out = rawjson.AppendString(append(out, raw[done:start]...), clean)
			done = end
		}
	}
	if done == 0 {
		return raw
	}
	return append(out, raw[done:]...)
}
