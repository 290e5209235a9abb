package computer

import "github.com/weir-mcp/weir/internal/redact"

// maxSecrets bounds how many secrets are looked for.
const maxSecrets = 1024

// secrets are the texts that a Computer tells nobody. The zero value is empty. Its
// owner guards it.
type secrets struct {
	texts map[string]bool // true: a credential, which is taken out of descriptions, too
	made  bool            // the sets below are those of texts
	every *redact.Set
	sure  *redact.Set
}

// add remembers a text. A text that is neither certain nor looks like a secret is
// hidden in errors and logs alone: descriptions of tools may well say the same word.
func (s *secrets) add(text string, certain bool) {
	certain = certain || !redact.Plain(text)
	before, known := s.texts[text]
	if len(text) < redact.MinSecret || known && (before || !certain) || !known && len(s.texts) >= maxSecrets {
		return
	}
	if s.texts == nil {
		s.texts = map[string]bool{}
	}
	s.texts[text], s.made = certain, false
}

// all is the set of all texts.
func (s *secrets) all() *redact.Set {
	s.make()
	return s.every
}

// credentials is the set of those that are secrets for certain.
func (s *secrets) credentials() *redact.Set {
	s.make()
	return s.sure
}

func (s *secrets) make() {
	if s.made {
		return
	}
	var every, sure []string
	for text, certain := range s.texts {
		every = append(every, text)
		if certain {
			sure = append(sure, text)
		}
	}
	s.every, s.sure, s.made = redact.New(every), redact.New(sure), true
}
