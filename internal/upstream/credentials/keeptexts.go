package credentials

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/identity"
	"github.com/weir-mcp/weir/internal/signin"
	"github.com/weir-mcp/weir/internal/signin/vault"
)

// maxKept bounds a text that a person gives a page.
const maxKept = 16 << 10

// textPages implements signin.Texts: the credentials that servers name as ${user:NAME}.
type textPages struct{ signIns *SignIns }

var _ signin.Texts = textPages{}

// Texts returns what the pages keep credentials of callers with.
func (s *SignIns) Texts() signin.Texts { return textPages{s} }

// Names implements signin.Texts.
func (p textPages) Names(ctx context.Context, caller *identity.Identity, server string) (all []signin.Text, err error) {
	_, names, err := p.server(caller, server)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		text, err := p.signIns.texts.get(ctx, name, caller.Principal)
		all = append(all, signin.Text{Name: name, Stored: text != "" || errors.Is(err, vault.ErrClosed)})
	}
	return all, nil
}

// server returns a server that a caller may call, and the names of the credentials that it needs of the
// caller. There are none for a server that needs no such credentials, or does not exist.
func (p textPages) server(caller *identity.Identity, server string) (*config.Server, []string, error) {
	c := p.signIns.config()
	entry, ok := c.Server(server)
	if !ok || len(p.signIns.textsOf(server)) == 0 {
		return nil, nil, nil
	}
	if c.Auth.Required() && (c.Auth.MetricsOnly(caller.Principal) || !c.Auth.Reaches(caller.Principal, server)) {
		return nil, nil, fmt.Errorf("this token does not open the server %q", server)
	}
	return entry, entry.UserTexts(), nil
}

// id returns the name of a credential in the store, if the server needs it of the caller.
func (p textPages) id(caller *identity.Identity, server, name string) (vault.ID, error) {
	_, names, err := p.server(caller, server)
	if err == nil && (!slices.Contains(names, name) || caller.Principal == "") {
		err = fmt.Errorf("the server %q has no credential of this name; open the page again", server)
	}
	return TextID(name, caller.Principal), err
}

// Keep implements signin.Texts.
func (p textPages) Keep(ctx context.Context, caller *identity.Identity, server, name, text string) error {
	id, err := p.id(caller, server, name)
	text = strings.TrimSpace(text)
	switch {
	case err != nil:
		return err
	case text == "":
		return errors.New("no value was given; nothing is stored")
	case len(text) > maxKept:
		return fmt.Errorf("the value has more than %d bytes", maxKept)
	case strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return errors.New("the value has a line break or another control character")
	}
	return p.changed(id, PutText(ctx, p.signIns.texts.store, id, text))
}

// Remove implements signin.Texts.
func (p textPages) Remove(ctx context.Context, caller *identity.Identity, server, name string) error {
	id, err := p.id(caller, server, name)
	if err != nil {
		return err
	}
	if err = p.signIns.texts.store.Delete(ctx, id); errors.Is(err, vault.ErrMissing) {
		err = nil // it is gone, as the person wants
	}
	return p.changed(id, err)
}

// changed makes the next call read the store again.
func (p textPages) changed(id vault.ID, err error) error {
	p.signIns.texts.known.Take(id)
	p.signIns.holders.forget()
	if err != nil {
		return fmt.Errorf("the store of credentials (credentials.store) fails: %w", err)
	}
	return nil
}

// PutText stores a text in the place of an earlier one.
func PutText(ctx context.Context, store vault.Store, id vault.ID, text string) error {
	unlock, err := store.Lock(ctx, id)
	if err != nil {
		return err
	}
	defer unlock()
	old, err := store.Get(ctx, id)
	switch {
	case errors.Is(err, vault.ErrClosed): // no key opens it any more
		err = store.Delete(ctx, id)
	case errors.Is(err, vault.ErrMissing):
		err = nil
	}
	if err != nil {
		return err
	}
	return store.Swap(ctx, id, old, vault.Record{Data: []byte(text)})
}
