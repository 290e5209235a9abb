package mcpserver

import (
	"maps"
	"slices"
	"strings"

	"github.com/weir-mcp/weir/internal/json/strict"
)

// userMark stands before and after the name of a credential in an expanded text. The character
// stands in no variable, header or argument.
const userMark = "\x00"

// UserText returns the text that stands for a reference ${user:NAME} until a connection is made.
func UserText(name string) string { return userMark + "user:" + name + userMark }

// FillUserTexts returns a value of headers or env with the credentials of a caller that ${user:NAME}
// refers to. It ends with the first error of text.
func FillUserTexts(s strict.Secret, text func(name string) (string, error)) (string, error) {
	var out strings.Builder
	rest := string(s)
	for {
		before, after, found := strings.Cut(rest, userMark+"user:")
		out.WriteString(before)
		if !found {
			return out.String(), nil
		}
		name, after, _ := strings.Cut(after, userMark)
		value, err := text(name)
		if err != nil {
			return "", err
		}
		out.WriteString(value)
		rest = after
	}
}

// HasUserText reports whether a value of headers or env has a credential of the caller in it.
func HasUserText(s strict.Secret) bool { return strings.Contains(string(s), userMark) }

// UserTexts returns the names of the credentials that headers and env refer to by ${user:NAME}, sorted.
func (s *Server) UserTexts() []string {
	var found map[string]bool // made for the first name, because requests ask for the names of each server
	for _, texts := range []map[string]strict.Secret{s.Headers, s.Env} {
		for _, text := range texts {
			if !HasUserText(text) {
				continue
			}
			if found == nil {
				found = map[string]bool{}
			}
			_, _ = FillUserTexts(text, func(name string) (string, error) { found[name] = true; return "", nil })
		}
	}
	if found == nil {
		return nil
	}
	return slices.Sorted(maps.Keys(found))
}
