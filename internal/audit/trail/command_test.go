package trail

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/weir-mcp/weir/internal/audit"
	"github.com/weir-mcp/weir/internal/signin/vault"
)

// TestCommandStore: a change is told before it happens and does not happen if it cannot be told. One
// that fails is told again.
func TestCommandStore(t *testing.T) {
	ctx := t.Context()
	id := vault.ID{Kind: vault.Token, Principal: "ann", Server: "notes https://notes.test/mcp"}
	inner := vault.NewMemory(nil)
	var told []string
	var refused error
	s := CommandStore{Store: inner, Command: "weir login", SignIn: true, Tell: func(_ context.Context, c audit.CredentialChange) error {
		if err := c.Check(); err != nil {
			t.Error(err)
		}
		_, err := inner.Get(ctx, id)
		told = append(told, fmt.Sprint(c.Kind, " ", c.Decision, " ", c.Server, " of ", c.Of, ", there: ", err == nil, ", failed: ", c.Failed))
		return refused
	}}
	one, two := vault.Record{Issuer: "i", Data: []byte("1")}, vault.Record{Issuer: "i", Data: []byte("2")}
	if err := s.Delete(ctx, id); !errors.Is(err, vault.ErrMissing) {
		t.Error(err)
	}
	if err := s.Swap(ctx, id, vault.Record{}, one); err != nil {
		t.Error(err)
	}
	if err := s.Swap(ctx, id, two, one); !errors.Is(err, vault.ErrChanged) {
		t.Error(err)
	}
	refused = errors.New("the disk is full")
	for _, err := range []error{s.Swap(ctx, id, one, two), s.Delete(ctx, id)} {
		if !errors.Is(err, refused) {
			t.Error(err)
		}
	}
	if now, err := inner.Get(ctx, id); err != nil || string(now.Data) != "1" {
		t.Errorf("an untold change happened: %q, %v", now.Data, err)
	}
	refused = nil
	if err := s.Delete(ctx, id); err != nil {
		t.Error(err)
	}
	want := []string{
		"sign-in stored notes of ann, there: false, failed: false",
		"sign-in replaced notes of ann, there: true, failed: false", "sign-in replaced notes of ann, there: true, failed: true",
		"sign-in replaced notes of ann, there: true, failed: false", "credential removed notes of ann, there: true, failed: false",
		"credential removed notes of ann, there: true, failed: false",
	}
	if !slices.Equal(told, want) {
		t.Errorf("told\n%q, want\n%q", told, want)
	}
}
