package hub

import (
	"crypto/ed25519"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"

	"github.com/weir-mcp/weir/internal/ownership"
	"github.com/weir-mcp/weir/internal/text/visible"
	"github.com/weir-mcp/weir/smcp"
)

// Claimant is a Computer that wants to join an office under a name.
type Claimant struct {
	Office, Name string
	Principal    string            // owner of the credentials
	Key          ed25519.PublicKey // the proven key; nil: none
}

// claim calls Options.Claim for a Computer that is about to join. The caller holds mu.
func (h *Hub) claim(s *session, role smcp.Role, name, office string) error {
	if role != smcp.RoleComputer || h.o.Claim == nil {
		return nil
	}
	if err := h.o.Claim(Claimant{office, name, s.grant.Principal, s.key}); err != nil {
		return smcp.Errorf(smcp.CodeForbidden, "%v: give this Computer another name", err)
	}
	return nil
}

// similarDevice returns the binding whose name can be confused with a Computer's name, or nil. Such
// names differ only in spelling.
func similarDevice(devices []Device, name string) *Device {
	folded := ownership.Fold(name)
	for i := range devices {
		if d := &devices[i]; d.Name != name && ownership.Fold(d.Name) == folded {
			return d
		}
	}
	return nil
}

// notATwin refuses a Computer's name that can be confused with a name bound to a key.
func notATwin(devices []Device, name string) error {
	if d := similarDevice(devices, name); d != nil {
		return smcp.Errorf(smcp.CodeForbidden, "The name '%s' counts as '%s', which is bound to a key: give this Computer another name", name, d.Name)
	}
	return nil
}

// legible reports whether people can tell a name or an office id from others. It has no characters that
// are not seen, and no letters of another alphabet in the middle of a word.
func legible(s string) bool {
	return visible.Text(s) == s && !strings.ContainsAny(s, "\t\r\n") && !mixesAlphabets(s)
}

// alphabets are the scripts with letters that are drawn like letters of the others.
var alphabets = []*unicode.RangeTable{unicode.Latin, unicode.Cyrillic, unicode.Greek, unicode.Armenian, unicode.Cherokee, unicode.Coptic, unicode.Lisu}

// mixesAlphabets reports whether a word has letters of two alphabets, such as a Cyrillic e in a Latin
// word. Words may be of different alphabets: "PC-Мария" mixes none. A word that is whole of another
// alphabet passes, however it looks.
func mixesAlphabets(s string) bool {
	var of *unicode.RangeTable // of the letters of this word
	for _, c := range norm.NFKC.String(s) {
		switch {
		case unicode.IsLetter(c):
			for _, alphabet := range alphabets {
				if unicode.Is(alphabet, c) {
					if of != nil && of != alphabet {
						return true
					}
					of = alphabet
				}
			}
		case !unicode.IsDigit(c) && !unicode.Is(unicode.M, c):
			of = nil
		}
	}
	return false
}
