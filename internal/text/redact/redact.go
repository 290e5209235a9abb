package redact

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"html"
	"net/url"
	"slices"
	"strings"
	"unicode/utf16"

	"github.com/weir-mcp/weir/internal/json/rawjson"
)

// Mark stands where a secret stood.
const Mark = "[redacted]"

// MinSecret is the shortest secret that is looked for: "1" or "on" in an environment
// is no secret, and to take it out would ruin every text.
const MinSecret = 6

// maxSpelled bounds the secrets that are also looked for with each character escaped.
// Longer ones, such as keys in PEM, are found in their usual forms.
const maxSpelled = 1024

// A Set is a set of secrets. The nil Set is empty. It is immutable and safe for
// concurrent use.
type Set struct {
	starts [1 << 16 / 64]uint64  // bit b0<<8|b1: a form starts with these two bytes
	forms  map[[2]byte][]written // by their first two bytes, the longest first
}

// written is one form in which a secret may stand in a text.
type written struct {
	text string
	// inside says that the form is the middle of a base64 text, which goes whole: the
	// characters around the form hold the rest of the secret.
	inside bool
}

// New returns the Set of the secrets. Those shorter than MinSecret are left out.
func New(secrets []string) *Set {
	s := &Set{forms: map[[2]byte][]written{}}
	seen := map[string]bool{}
	for _, secret := range secrets {
		if len(secret) < MinSecret {
			continue
		}
		for _, w := range forms(secret) {
			if len(w.text) < MinSecret || seen[w.text] {
				continue
			}
			seen[w.text] = true
			first := [2]byte{w.text[0], w.text[1]}
			s.forms[first] = append(s.forms[first], w)
			at := uint(first[0])<<8 | uint(first[1])
			s.starts[at/64] |= 1 << (at % 64)
		}
	}
	if len(seen) == 0 {
		return nil
	}
	for _, list := range s.forms {
		slices.SortFunc(list, func(a, b written) int { return len(b.text) - len(a.text) })
	}
	return s
}

// find returns the first place in text, from an offset on, where a secret stands.
func (s *Set) find(text string, from int) (start, end int, inside, found bool) {
	for i := from; i+MinSecret <= len(text); i++ {
		at := uint(text[i])<<8 | uint(text[i+1])
		if s.starts[at/64]&(1<<(at%64)) == 0 {
			continue
		}
		for _, w := range s.forms[[2]byte{text[i], text[i+1]}] {
			if strings.HasPrefix(text[i:], w.text) {
				return i, i + len(w.text), w.inside, true
			}
		}
	}
	return 0, 0, false, false
}

// Holds reports whether a secret stands in text.
func (s *Set) Holds(text string) bool {
	if s == nil {
		return false
	}
	_, _, _, found := s.find(text, 0)
	return found
}

// Next returns the first place in text, from an offset on, where a secret stands. A base64 text with a secret
// in it counts whole.
func (s *Set) Next(text string, from int) (start, end int, found bool) {
	if s == nil {
		return 0, 0, false
	}
	start, end, inside, found := s.find(text, from)
	if inside {
		for start > from && inBase64(text[start-1]) {
			start--
		}
		for end < len(text) && inBase64(text[end]) {
			end++
		}
	}
	return start, end, found
}

// Replace returns text with Mark in place of each secret. Where there is none, text
// itself is returned. It takes one pass, whatever the number of secrets.
func (s *Set) Replace(text string) string {
	start, end, found := s.Next(text, 0)
	if !found {
		return text
	}
	var out strings.Builder
	done := 0
	for found {
		out.WriteString(text[done:start])
		out.WriteString(Mark)
		done = end
		start, end, found = s.Next(text, done)
	}
	out.WriteString(text[done:])
	return out.String()
}

func inBase64(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("+/-_=", c) >= 0
}

// forms are the ways to write a secret: as it is, in a JSON text, in a URL, in HTML, in
// hexadecimal, and within a base64 text, such as the base64 text of "user:secret".
func forms(secret string) []written {
	quoted := string(rawjson.Quote(secret))
	escaped := html.EscapeString(secret)
	texts := []string{
		secret, quoted[1 : len(quoted)-1], marksEscaped(quoted[1:len(quoted)-1], "<>&"), marksEscaped(quoted[1:len(quoted)-1], "<>&'"),
		escaped, strings.NewReplacer("&#34;", "&quot;", "&#39;", "&apos;").Replace(escaped),
		strings.NewReplacer("&#34;", "&quot;", "&#39;", "&#x27;").Replace(escaped),
		url.QueryEscape(secret), lowerEscapes(url.QueryEscape(secret)),
		url.PathEscape(secret), lowerEscapes(url.PathEscape(secret)),
	}
	for _, plain := range []string{"-_.~", "-_.~!*'()", "-_.~!$&()*+,;=:@/", "-_.~!$&'()*+,;=:@/"} {
		text := percent(secret, plain)
		texts = append(texts, text, lowerEscapes(text))
	}
	digits := hex.EncodeToString([]byte(secret))
	texts = append(texts, digits, strings.ToUpper(digits))
	if len(secret) <= maxSpelled {
		texts = append(texts, spelled(secret)...)
	}
	all := make([]written, 0, len(texts)+6)
	for _, text := range texts {
		all = append(all, written{text: text})
	}
	for before := range 3 {
		for _, encoding := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
			all = append(all, written{text: middle(encoding, secret, before), inside: true})
		}
	}
	return all
}

// middle returns the characters of a base64 text that depend on nothing but the
// secret, where it has this many bytes before it, modulo 3.
func middle(encoding *base64.Encoding, secret string, before int) string {
	text := encoding.EncodeToString(append(make([]byte, before), secret...))
	first := (8*before + 5) / 6 // the first character without a bit of the text before
	last := 8 * (before + len(secret)) / 6
	return text[first:last]
}

// percent escapes the bytes that are neither letters, digits nor among plain.
func percent(secret, plain string) string {
	var out strings.Builder
	for i := range len(secret) {
		c := secret[i]
		if 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte(plain, c) >= 0 {
			out.WriteByte(c)
			continue
		}
		fmt.Fprintf(&out, "%%%02X", c)
	}
	return out.String()
}

// lowerEscapes writes the escapes of a text of a URL with small letters.
func lowerEscapes(text string) string {
	out := []byte(text)
	for i := 0; i+2 < len(out); i++ {
		if out[i] == '%' {
			copy(out[i+1:], strings.ToLower(text[i+1:i+3]))
			i += 2
		}
	}
	return string(out)
}

// marksEscaped writes marks, which encoders of JSON escape for web pages, and characters beyond
// ASCII as \u and four digits.
func marksEscaped(quoted, marks string) string {
	var out strings.Builder
	for _, c := range quoted {
		if c < 0x7f && !strings.ContainsRune(marks, c) {
			out.WriteRune(c)
			continue
		}
		for _, unit := range utf16.Encode([]rune{c}) {
			fmt.Fprintf(&out, `\u%04x`, unit)
		}
	}
	return out.String()
}

// spelled are the forms in which each character of a secret is escaped.
func spelled(secret string) []string {
	var escaped, percents, entities, hexEntities strings.Builder
	for _, unit := range utf16.Encode([]rune(secret)) {
		fmt.Fprintf(&escaped, `\u%04x`, unit)
	}
	for _, c := range secret {
		fmt.Fprintf(&entities, "&#%d;", c)
		fmt.Fprintf(&hexEntities, "&#x%x;", c)
	}
	for i := range len(secret) {
		fmt.Fprintf(&percents, "%%%02x", secret[i])
	}
	upper := func(text, prefix string) string {
		return strings.ReplaceAll(strings.ToUpper(text), strings.ToUpper(prefix), prefix)
	}
	return []string{
		escaped.String(), upper(escaped.String(), `\u`), percents.String(), strings.ToUpper(percents.String()),
		entities.String(), hexEntities.String(), upper(hexEntities.String(), "&#x"),
	}
}
