package credentials

import (
	"context"

	"github.com/weir-mcp/weir/internal/audit"
	"github.com/weir-mcp/weir/internal/audit/calls"
	"github.com/weir-mcp/weir/internal/signin/oauth"
	"github.com/weir-mcp/weir/internal/signin/vault"
)

// auditedStore tells the audit log of changes of credentials.
type auditedStore struct {
	vault.Store
	log *audit.Log
}

// Audited returns the store, with records of its changes where there is a log.
func Audited(s vault.Store, l *audit.Log) vault.Store {
	if l == nil {
		return s
	}
	if s == nil {
		s = vault.NewMemory(nil)
	}
	return auditedStore{s, l}
}

// Swap implements vault.Store.
func (s auditedStore) Swap(ctx context.Context, id vault.ID, old, next vault.Record) error {
	err := s.Store.Swap(ctx, id, old, next)
	if err == nil {
		kind, decision := Swapped(id, old, bySignIn(ctx))
		s.tell(ctx, kind, decision, id)
	}
	return err
}

// Swapped returns the kind and the decision of the record about a credential in the place of old.
// signIn says that a person signs in.
func Swapped(id vault.ID, old vault.Record, signIn bool) (kind audit.Kind, decision string) {
	switch {
	case old.Data == nil && id.Kind == vault.Token:
		return audit.SignIn, "stored"
	case old.Data == nil:
		return audit.Credential, "stored"
	case signIn && id.Kind == vault.Token:
		return audit.SignIn, "replaced"
	}
	return audit.Credential, "renewed"
}

// Delete implements vault.Store.
func (s auditedStore) Delete(ctx context.Context, id vault.ID) error {
	err := s.Store.Delete(ctx, id)
	if err == nil {
		s.tell(ctx, audit.Credential, "removed", id)
	}
	return err
}

func (s auditedStore) tell(ctx context.Context, kind audit.Kind, decision string, id vault.ID) {
	out := calls.Caller(ctx, kind)
	out.Decision, out.Server, out.Credential, out.Detail = decision, oauth.ServerName(id), string(id.Kind)+" "+id.Issuer, "of "+id.Principal
	s.log.Add(out)
}
