package oauth

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-mcp/weir/internal/signin/vault"
)

// lockedStore is a store whose locks another process has until free is closed.
type lockedStore struct {
	vault.Store
	free chan struct{}
}

func (s *lockedStore) Lock(ctx context.Context, id vault.ID) (func(), error) {
	select {
	case <-s.free:
		return s.Store.Lock(ctx, id)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// put stores a sign-in whose token lives for an hour from issued.
func (s *lockedStore) put(t *testing.T, id vault.ID, token string, issued time.Time) {
	t.Helper()
	data, err := json.Marshal(&grant{Issuer: "https://id.example", Token: "https://id.example/token", Flow: FlowCode, Access: token, Refresh: "r", Issued: issued, Expires: issued.Add(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	old, err := s.Get(t.Context(), id)
	if err != nil && !errors.Is(err, vault.ErrMissing) {
		t.Fatal(err)
	}
	if err := s.Swap(t.Context(), id, old, vault.Record{Issuer: "https://id.example", Data: data}); err != nil {
		t.Fatal(err)
	}
}

// TestLeaveRefresh has a caller leave a refresh that takes long: the caller gets its answer at once, and
// the refresh goes on. Close waits for it, and not longer than it may.
func TestLeaveRefresh(t *testing.T) {
	for name, done := range map[string]bool{"it ends": true, "it hangs": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := &lockedStore{vault.NewMemory(nil), make(chan struct{})}
				c := New(Options{Store: store})
				s := &Server{Name: "notes", URL: "https://notes.example/mcp", Flow: FlowCode}
				store.put(t, s.id("me"), "old", time.Now().Add(-2*time.Hour))
				began := time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				if token, err := c.Token(ctx, s, "me"); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Second {
					t.Errorf("after %v: %q, %v", time.Since(began), token.Token, err)
				}
				time.AfterFunc(2*time.Second, func() {
					if done {
						store.put(t, s.id("me"), "new", time.Now())
						close(store.free)
					}
				})
				second := make(chan string, 1)
				go func() {
					token, err := c.Token(t.Context(), s, "me")
					if (err == nil) != done {
						t.Errorf("the caller that stays: %v", err)
					}
					second <- string(token.Token)
				}()
				synctest.Wait()
				began = time.Now()
				ctx, cancel = context.WithTimeout(t.Context(), 4*time.Second)
				defer cancel()
				err := c.Close(ctx)
				took, want := time.Since(began), 2*time.Second
				if !done {
					want = 4 * time.Second
				}
				if took != want || (err == nil) != done || !done && !strings.Contains(err.Error(), "notes") {
					t.Errorf("close took %v: %v", took, err)
				}
				if token := <-second; done && token != "new" {
					t.Errorf("the caller that stays has %q", token)
				}
				if d := time.Since(began); d != want {
					t.Errorf("the refresh ends after %v", d)
				}
				if _, err := c.again(t.Context(), s, s.id("me"), "new"); !errors.Is(err, errClosed) {
					t.Errorf("a refresh after the end: %v", err)
				}
			})
		})
	}
}
