package computer

import "github.com/weir-mcp/weir/internal/text/redact"

// maxSecrets bounds the number of secrets.
const maxSecrets = 1024

// secrets holds the texts that must not leave the Computer. The zero value is empty. The owner's lock
// guards it.
type secrets struct {
	texts map[string]bool // true: a credential, which is also removed from descriptions
	made  bool            // the sets below are built from texts
	every *redact.Set
	sure  *redact.Set
}

// add adds a text. Unless the text is certain to be a secret or looks like one, it is hidden only in
// errors and logs, because descriptions of tools may contain the same word.
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

// all returns the set of all texts.
func (s *secrets) all() *redact.Set {
	s.make()
	return s.every
}

// credentials returns the set of texts that are certain to be secrets.
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
