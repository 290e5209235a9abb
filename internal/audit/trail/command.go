package trail

import (
	"context"
	"errors"
	"log/slog"
	"strings"

	"github.com/weir-mcp/weir/internal/audit"
	"github.com/weir-mcp/weir/internal/audit/calls"
	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/signin/oauth"
	"github.com/weir-mcp/weir/internal/signin/vault"
	"github.com/weir-mcp/weir/internal/upstream/credentials"
	"github.com/weir-mcp/weir/mcp"
)

// ChangedByCommand records what a command does with a credential. If the log is required, it returns
// when the record is on disk. The log must be there. The caller has checked c.
func (a *Auditor) ChangedByCommand(ctx context.Context, c audit.CredentialChange) error {
	err := a.calls.Log().Sync(ctx, changeRecord(ctx, &c))
	if err != nil && ctx.Err() == nil {
		err = mcp.Errorf(mcp.KindAuditUnavailable, "the gateway cannot write its audit log; its operator finds the reason in the log of weir: %w", err)
	}
	return err
}

func changeRecord(ctx context.Context, c *audit.CredentialChange) *audit.Record {
	out := calls.Caller(ctx, c.Kind)
	c.Fill(out)
	return out
}

// RecordChange opens the configured audit log, records what a command does with a credential, and
// closes the log: a gateway can start while the command goes on. It returns when the record is on
// disk. Without a change it only opens the log. The error is that of the log, also if another process
// has it open.
func RecordChange(ctx context.Context, c *config.Config, change *audit.CredentialChange) error {
	l, err := open(ctx, &c.Audit, true, "", slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	defer l.Close()
	if change == nil {
		return nil
	}
	return l.Sync(ctx, changeRecord(ctx, change))
}

// CommandStore is a store of credentials for one command of weir. It tells of each change before it
// makes it, and makes it only if Tell returns nil.
type CommandStore struct {
	vault.Store
	Command string // such as "weir login"
	SignIn  bool   // a token in the place of another one is a person's new sign-in
	Tell    func(ctx context.Context, c audit.CredentialChange) error
}

// Swap implements vault.Store.
func (s CommandStore) Swap(ctx context.Context, id vault.ID, old, next vault.Record) error {
	kind, decision := credentials.Swapped(id, old, s.SignIn)
	return s.change(ctx, kind, decision, id, func() error { return s.Store.Swap(ctx, id, old, next) })
}

// Delete implements vault.Store. To remove what is not there changes nothing, and is not told.
func (s CommandStore) Delete(ctx context.Context, id vault.ID) error {
	if _, err := s.Store.Get(ctx, id); errors.Is(err, vault.ErrMissing) {
		return err
	}
	return s.change(ctx, audit.Credential, "removed", id, func() error { return s.Store.Delete(ctx, id) })
}

func (s CommandStore) change(ctx context.Context, kind audit.Kind, decision string, id vault.ID, do func() error) error {
	c := audit.CredentialChange{Command: s.Command, Kind: kind, Decision: decision, Server: oauth.ServerName(id), Credential: strings.TrimSpace(string(id.Kind) + " " + id.Issuer), Of: id.Principal}
	if err := s.Tell(ctx, c); err != nil {
		return err
	}
	err := do()
	if err != nil {
		c.Failed = true
		err = errors.Join(err, s.Tell(context.WithoutCancel(ctx), c))
	}
	return err
}
