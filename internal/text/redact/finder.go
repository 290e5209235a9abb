package redact

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/weir-mcp/weir/internal/json/rawjson"
)

const (
	// minEncoded is the shortest text in base64 that is decoded: shorter ones have no secret of a
	// well-known form in them.
	minEncoded = 24
	// maxNested bounds how deep texts are read that are in the encoding of others.
	maxNested = 4
	// maxPlace bounds the place of a secret in a message, in bytes.
	maxPlace = 200
)

// A Finder finds secrets in JSON values: those that it knows, and keys and tokens of well-known forms.
// It reads names and texts, JSON and base64 in them, and known secrets that are split over several
// texts. The time is linear in the size of the value. It is safe for concurrent use.
type Finder struct {
	known  *Set
	recent *Recent
	own    *oneSecret                // of With; nil: none
	last   atomic.Pointer[oneSecret] // the last result of With
}

// oneSecret is a secret with its forms.
type oneSecret struct {
	secret string
	forms  []string
}

// NewFinder returns a Finder of secrets, and of those that come and go. Either may be nil.
func NewFinder(secrets []string, recent *Recent) *Finder {
	return &Finder{known: New(secrets), recent: recent}
}

// With returns a Finder that also finds one more secret, of any length; "" is none. It looks for each
// form of the secret in turn. The forms are kept for the next call with the same secret.
func (f *Finder) With(secret string) *Finder {
	if secret == "" {
		return f
	}
	own := f.last.Load()
	if own == nil || own.secret != secret {
		own = &oneSecret{secret, []string{secret}}
		for _, w := range forms(secret) {
			if len(w.text) >= MinSecret {
				own.forms = append(own.forms, w.text)
			}
		}
		slices.Sort(own.forms)
		own.forms = slices.Compact(own.forms)
		f.last.Store(own)
	}
	return &Finder{known: f.known, recent: f.recent, own: own}
}

// Find returns the place of the first secret in a JSON value, which starts with the name of the value.
// "" means that there is none. The place names no secret.
func (f *Finder) Find(name string, raw []byte) string {
	s := search{Finder: f}
	if at := s.value(name, raw, 0); at != "" {
		return at
	}
	if s.texts > 1 && f.knows(s.joined.String()) {
		return name + " (in several texts)"
	}
	return ""
}

// knows reports whether a known secret stands in a text.
func (f *Finder) knows(text string) bool {
	return f.known.Holds(text) || f.recent.Holds(text) || f.own.in(text)
}

// in reports whether the secret stands in a text.
func (o *oneSecret) in(text string) bool {
	return o != nil && slices.ContainsFunc(o.forms, func(form string) bool { return strings.Contains(text, form) })
}

// search is one use of a Finder.
type search struct {
	*Finder
	joined strings.Builder // all texts, for those that are split
	texts  int
}

// value returns the place of the first secret in a value.
func (s *search) value(at string, raw []byte, depth int) (found string) {
	if len(raw) == 0 {
		return ""
	}
	switch raw[0] {
	case '"':
		text := rawjson.Text(raw)
		if depth == 0 {
			s.joined.WriteString(text)
			s.texts++
		}
		return s.text(at, text, depth)
	case '{':
		_ = rawjson.EachMember(raw, func(m rawjson.Member) bool {
			key := string(m.Key)
			if found = s.text(at+" (a name in it)", key, depth); found == "" {
				found = s.value(at+rawjson.PathStep(key), m.Value, depth)
			}
			return found == ""
		})
	case '[':
		n := 0
		_ = rawjson.EachElement(raw, func(value []byte) bool {
			found = s.value(fmt.Sprintf("%s[%d]", at, n), value, depth)
			n++
			return found == ""
		})
	}
	return found
}

// text returns the place of a secret in a text, which may be JSON, or have base64 in it.
func (s *search) text(at, text string, depth int) string {
	if s.knows(text) || shaped(text) {
		return clip(at)
	}
	if depth >= maxNested {
		return ""
	}
	inner := strings.TrimSpace(text)
	if inner != "" && strings.IndexByte(`{["`, inner[0]) >= 0 && rawjson.Valid([]byte(inner)) == nil {
		if s.value(at, []byte(inner), depth+1) != "" {
			return clip(at)
		}
	}
	for begin := 0; begin < len(text); {
		end := begin
		for end < len(text) && text[end] != '=' && inBase64(text[end]) {
			end++
		}
		if end-begin >= minEncoded && s.encoded(at, text[begin:end], depth) {
			return clip(at)
		}
		begin = end + 1
	}
	return ""
}

// encoded reports whether a text in base64 has a secret in it.
func (s *search) encoded(at, text string, depth int) bool {
	text = strings.NewReplacer("-", "+", "_", "/").Replace(text)
	if len(text)%4 == 1 {
		text = text[:len(text)-1] // no text in base64 ends so
	}
	raw, err := base64.RawStdEncoding.DecodeString(text)
	return err == nil && s.text(at, string(raw), depth+1) != ""
}

// shaped reports whether a key or token of a well-known form stands in a text. One of only words, such
// as sk-learn-a-new-language, is none.
func shaped(text string) bool {
	var shapes Shapes
	for from := 0; ; {
		start, end, found := shapes.Next(text, from)
		if !found {
			return strings.Contains(text, "PRIVATE KEY-----") && strings.Contains(text, "-----BEGIN ")
		}
		if !Plain(text[start:end]) {
			return true
		}
		from = end
	}
}

// clip bounds a place.
func clip(at string) string {
	if len(at) > maxPlace {
		return strings.ToValidUTF8(at[:maxPlace], "") + "…"
	}
	return at
}
