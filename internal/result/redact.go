package result

import (
	"bytes"
	"errors"
	"io"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/text/lazy"
	"github.com/weir-mcp/weir/internal/text/redact"
)

// redacted replaces a secret.
const redacted = redact.Mark

// secretPattern finds secrets that the configuration does not list.
type secretPattern struct {
	pattern func() *regexp.Regexp // its group is the secret; without one, all of it is
	// hints are texts of which one must occur before the pattern is tried; finding them costs a
	// hundredth of the pattern. With fold they are lower-case and match any case.
	hints []string
	fold  bool
}

// secretShapes match secrets by their own form, anywhere, in addition to the shapes of
// [redact.Shapes].
var secretShapes = []secretPattern{
	{lazy.Pattern(`(?i)\b(?:bearer|basic)\s+([a-z0-9._~+/=-]{8,})`), []string{"bearer", "basic"}, true},
	{lazy.Pattern(`://([^/\s:@"]*:[^/\s@"]+)@`), []string{"://"}, false},
	{lazy.Pattern(`-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)`), []string{"PRIVATE KEY"}, false},
}

// secretAssignments match values under a telling name. They apply to messages only: in a result,
// next_token=17 is needed by the next call. After a colon and without quotes, only a text with a
// digit counts as a value, because "token: missing" is an error message.
var secretAssignments = []secretPattern{
	{lazy.Pattern(`(?i)authorization["']?\s*[=:]\s*["']?[a-z]+\s+([^\s"',;&]{6,})`), []string{"authorization"}, true},
	{lazy.Pattern(`(?i)(?:(?:api|access|private|secret|auth|client)[_-]?(?:key|token|secret)|passwd|password|token|secret)(?:=["']?|["']\s*:\s*["'])([^\s"',;&]{6,})`),
		[]string{"key", "token", "secret", "passwd", "password"}, true},
	{lazy.Pattern(`(?i)(?:(?:api|access|private|secret|auth|client)[_-]?(?:key|token|secret)|authorization|cookie|passwd|password|token|secret)(?:["']?\s*[=:]\s*["']?)([^\s"',;&]*[0-9][^\s"',;&]*)`),
		[]string{"key", "token", "secret", "authorization", "cookie", "passwd", "password"}, true},
}

// resultAssignments are secretAssignments for results. A name such as token or next_token stays: the
// next call may need its value.
var resultAssignments = []secretPattern{
	{lazy.Pattern(`(?i)(?:` + credentialNames + `)(?:=["']?|["']\s*:\s*["'])([^\s"',;&]{6,})`), credentialHints, true},
	{lazy.Pattern(`(?i)(?:` + credentialNames + `)(?:["']?\s*[=:]\s*["']?)([^\s"',;&]*[0-9][^\s"',;&]*)`), credentialHints, true},
}

// credentialNames match names whose values are credentials, whatever stands around them.
const credentialNames = `(?:api|access|private|secret|auth|client)[_-]?(?:key|token|secret)|passwd|password|passphrase`

var (
	credentialHints = []string{"passw", "passphrase", "key", "token", "secret"}
	credentialName  = lazy.Pattern(`(?i)^(?:[a-z0-9]+[_-])*(?:` + credentialNames + `)$`)
)

// minCredential is the length of the shortest text under such a name that counts as a credential.
const minCredential = 6

// next returns the first secret in s, from an offset on.
func (p *secretPattern) next(s string, from int) (start, end int, found bool) {
	at := p.pattern().FindStringSubmatchIndex(s[from:])
	if at == nil {
		return 0, 0, false
	}
	return from + at[len(at)-2], from + at[len(at)-1], true
}

// hinted reports whether s holds one of the hints.
func (p *secretPattern) hinted(s string) bool {
	for _, hint := range p.hints {
		if p.fold && containsFold(s, hint) || !p.fold && rawjson.Contains(viewOf(s), hint) {
			return true
		}
	}
	return false
}

// containsFold is strings.Contains for a lower-case ASCII text, in any case.
func containsFold(s, lower string) bool {
	first := lower[0]
	if 'a' <= first && first <= 'z' && startsFold(s, lower, first-('a'-'A')) {
		return true
	}
	return startsFold(s, lower, first)
}

// startsFold reports whether lower is in s, in any case, with first as its first byte.
func startsFold(s, lower string, first byte) bool {
	for from := 0; from+len(lower) <= len(s); from++ {
		at := strings.IndexByte(s[from:len(s)-len(lower)+1], first)
		if at < 0 {
			return false
		}
		if from += at; strings.EqualFold(s[from:from+len(lower)], lower) {
			return true
		}
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
	return r.replace(s[:min(len(s), maxRedacted)], secretAssignments)
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
func (r *Redactor) Text(s string) string { return r.replace(s, nil) }

// replace is Text with further patterns.
func (r *Redactor) replace(s string, more []secretPattern) string {
	clean, err := r.clean(viewOf(s), more, makeOnHeap)
	if err != nil {
		return s // there is none on the heap
	}
	return textOf(clean)
}

// LargeText is Text for a text of any size. make makes the text without secrets.
func (r *Redactor) LargeText(text []byte, make Maker) ([]byte, error) {
	return r.clean(text, nil, make)
}

func (r *Redactor) clean(text []byte, more []secretPattern, make Maker) ([]byte, error) {
	found := r.secrets(textOf(text), more)
	start, end, ok := found.next()
	if !ok {
		return text, nil
	}
	return make(text, func(w io.Writer) error {
		out := splicer{w: w, from: text}
		for ; ok; start, end, ok = found.next() {
			out.copy(start)
			out.write([]byte(redacted))
			out.done = end
		}
		return out.end()
	})
}

// Results returns a raw JSON value without configured secrets, texts that look like secrets, and
// values under the names of credentials, in its strings and keys. Only these strings change. If there
// are none, it returns raw itself.
func (r *Redactor) Results(raw []byte) []byte {
	clean, err := r.LargeResults(raw, makeOnHeap)
	if err != nil {
		return raw // there is none on the heap
	}
	return clean
}

// LargeResults is Results for a value of any size. make makes the value without secrets.
func (r *Redactor) LargeResults(raw []byte, make Maker) ([]byte, error) {
	from, err := r.eachClean(raw, 0, make, func(int, int, []byte) error { return errFound })
	if !errors.Is(err, errFound) {
		return raw, err
	}
	return make(raw, func(w io.Writer) error {
		out := splicer{w: w, from: raw}
		if _, err := r.eachClean(raw, from, make, out.replace); err != nil {
			return err
		}
		return out.end()
	})
}

// errFound ends eachClean at the first string with a secret.
var errFound = errors.New("there is a secret")

// eachClean calls f with each string of a JSON value, from the start of one on, that has a secret, and its text
// without the secret. If f fails, from is where eachClean starts again.
func (r *Redactor) eachClean(raw []byte, at int, make Maker, f func(start, end int, clean []byte) error) (from int, err error) {
	named := false // the next string is the value of a credential
	for from = at; at < len(raw); {
		n := bytes.IndexByte(raw[at:], '"')
		if n < 0 {
			break
		}
		start := at + n
		end, err := rawjson.Skip(raw, start)
		if err != nil {
			return from, nil // not JSON: its reader reports the error
		}
		text, err := make.view(raw[start:end])
		if err != nil {
			return from, err
		}
		clean := []byte(redacted)
		if !named || len(text) < minCredential {
			if clean, err = r.clean(text, resultAssignments, make); err != nil {
				return from, err
			}
		}
		colon := rawjson.SkipSpace(raw, end)
		if named = false; colon < len(raw) && raw[colon] == ':' && len(text) < 64 && credentialName().Match(text) {
			value := rawjson.SkipSpace(raw, colon+1)
			named = value < len(raw) && raw[value] == '"'
		}
		if !bytes.Equal(clean, text) {
			if err := f(start, end, clean); err != nil {
				return from, err
			}
		}
		from, at = start, end
	}
	return from, nil
}

// splicer writes bytes with parts replaced. After an error it writes nothing.
type splicer struct {
	w    io.Writer
	from []byte
	done int // from[:done] is written
	err  error
}

func (s *splicer) write(p []byte) {
	if s.err == nil {
		_, s.err = s.w.Write(p)
	}
}

// copy writes what is before the next part that is replaced.
func (s *splicer) copy(start int) { s.write(s.from[s.done:start]) }

// replace writes a JSON string in place of another one.
func (s *splicer) replace(start, end int, text []byte) error {
	s.copy(start)
	var quoted []byte
	for first := true; first || len(text) > 0; first = false {
		n := min(len(text), quotedPiece)
		for n < len(text) && !utf8.RuneStart(text[n]) {
			n--
		}
		quoted = rawjson.AppendText(quoted[:0], text[:n])
		if text = text[n:]; !first {
			quoted = quoted[1:]
		}
		if len(text) > 0 {
			quoted = quoted[:len(quoted)-1]
		}
		s.write(quoted)
	}
	s.done = end
	return s.err
}

// quotedPiece is about how much of a text is quoted at once.
const quotedPiece = 64 << 10

// end writes the rest.
func (s *splicer) end() error {
	s.copy(len(s.from))
	return s.err
}
