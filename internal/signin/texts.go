package signin

import (
	"context"
	"net/http"

	"github.com/weir-mcp/weir/internal/identity"
)

// Texts keeps the credentials that people make themselves, as a token that a server's own page has
// given them. Its methods are called concurrently. Their errors are shown to the caller.
type Texts interface {
	// Names returns the credentials of a caller that a server needs; nil if it needs none of that kind.
	Names(ctx context.Context, caller *identity.Identity, server string) ([]Text, error)
	// Keep stores a credential of a caller in the place of an earlier one. The name is one of Names.
	Keep(ctx context.Context, caller *identity.Identity, server, name, text string) error
	// Remove removes a credential of a caller.
	Remove(ctx context.Context, caller *identity.Identity, server, name string) error
}

// Text is a credential of a caller, without its value.
type Text struct {
	Name   string
	Stored bool // there is a value, which is never shown
}

// showTexts writes the page on which a caller stores credentials of a server. It returns false if the
// server needs none.
func (p *Pages) showTexts(w http.ResponseWriter, r *http.Request, s *session, server, browser, problem string) bool {
	if p.texts == nil {
		return false
	}
	title := "Credentials for " + server
	texts, err := p.texts.Names(r.Context(), s.caller, server)
	switch {
	case err != nil:
		write(w, http.StatusForbidden, view{Title: title, Problem: err.Error()})
		return true
	case len(texts) == 0:
		return false
	}
	status := http.StatusOK
	if problem != "" {
		status = http.StatusBadRequest
	}
	write(w, status, view{
		Title: title, Form: p.formToken(browser), Caller: s.name(), Texts: texts, Problem: problem,
		Text: "The server wants a credential that you make yourself, such as a token of its settings page. The gateway keeps it sealed, shows it to this server alone, and never to a person.",
	})
	return true
}

// postText takes the form of showTexts. It returns false if the form is another one.
func (p *Pages) postText(w http.ResponseWriter, r *http.Request, s *session, server, browser string) bool {
	name, removed := r.PostForm.Get("credential"), r.PostForm.Get("remove")
	if p.texts == nil || name == "" && removed == "" {
		return false
	}
	ctx := identity.With(r.Context(), s.caller)
	var err error
	if removed != "" {
		err = p.texts.Remove(ctx, s.caller, server, removed)
	} else {
		err = p.texts.Keep(ctx, s.caller, server, name, r.PostForm.Get("text"))
	}
	if err == nil {
		http.Redirect(w, r, URL("", server), http.StatusSeeOther)
		return true
	}
	if !p.showTexts(w, r, s, server, browser, err.Error()) {
		write(w, http.StatusForbidden, view{Title: "Credentials for " + server, Problem: err.Error()})
	}
	return true
}
