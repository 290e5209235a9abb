package oauth

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-mcp/weir/internal/signin/vault"
)

// fullStore is a store whose disk is full while full is set.
type fullStore struct {
	vault.Store
	full  atomic.Bool
	tries atomic.Int32 // attempts to store a token while it is full
}

func (s *fullStore) Swap(ctx context.Context, id vault.ID, old, next vault.Record) error {
	if id.Kind == vault.Token && s.full.Load() {
		s.tries.Add(1)
		return errors.New("no space left on device")
	}
	return s.Store.Swap(ctx, id, old, next)
}

// fullWorld is a world whose store can be full. log has what the client logs.
func fullWorld(t *testing.T) (w *world, store *fullStore, log *bytes.Buffer) {
	t.Helper()
	w, log = newWorld(t), &bytes.Buffer{}
	store = &fullStore{Store: vault.NewMemory(nil)}
	w.store = store
	w.client = New(Options{Store: store, Now: w.now, Logger: slog.New(slog.NewTextHandler(log, nil))})
	t.Cleanup(func() { _ = w.client.Close(context.Background()) }) // a test that has closed it has looked at the error
	return w, store, log
}

// TestStoreIsFull has tokens rotate while the store takes none: calls go on, and the newest token is
// stored when there is room again.
func TestStoreIsFull(t *testing.T) {
	w, store, log := fullWorld(t)
	w.signIn("me")
	store.full.Store(true)
	for i := range 3 {
		w.pass(50 * time.Minute)
		w.welcome("me")
		if n := w.idp.Count("refreshed"); n != i+1 {
			t.Fatalf("%d refreshes after %d lives", n, i+1)
		}
	}
	if err := w.client.Close(t.Context()); err == nil || !strings.Contains(err.Error(), "notes") {
		t.Errorf("the sign-in is lost, and the error is %v", err)
	}
	store.full.Store(false)
	if err := w.client.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if said := log.String(); strings.Count(said, "level=WARN") != 1 || !strings.Contains(said, "server=notes") {
		t.Errorf("the log has %s", said)
	}
	w.client = w.another()
	w.pass(50 * time.Minute)
	w.welcome("me") // the authorization server complains of a refresh token that is used twice
	if n := w.idp.Count("refreshed"); n != 4 {
		t.Errorf("%d refreshes", n)
	}
}

// TestFullStoreYields signs out and in at another process while a grant waits for the store.
func TestFullStoreYields(t *testing.T) {
	w, store, _ := fullWorld(t)
	w.signIn("me")
	store.full.Store(true)
	w.pass(50 * time.Minute)
	w.welcome("me")
	if err := store.Delete(t.Context(), w.server.id("me")); err != nil {
		t.Fatal(err)
	}
	w.pass(cachedTime)
	_, err := w.get("me")
	needsSignIn(t, err)
	store.full.Store(false)
	w.signIn("me")
	w.pass(50 * time.Minute)
	store.full.Store(true)
	w.welcome("me")
	store.full.Store(false)
	w.signIn("me") // newer than what waits
	entry, err := store.Get(t.Context(), w.server.id("me"))
	if err != nil {
		t.Fatal(err)
	}
	if err := w.client.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if now, err := store.Get(t.Context(), w.server.id("me")); err != nil || !bytes.Equal(now.Data, entry.Data) {
		t.Errorf("a grant that waited has replaced a newer sign-in: %v", err)
	}
}

// TestFullStoreSignsOut signs out while a grant waits for the store: its tokens are those that are
// revoked, and it does not come back.
func TestFullStoreSignsOut(t *testing.T) {
	w, store, _ := fullWorld(t)
	w.signIn("me")
	store.full.Store(true)
	w.pass(50 * time.Minute)
	w.welcome("me")
	if err := w.client.SignOut(t.Context(), w.server.id("me")); err != nil || w.idp.Count("revoked") != 1 {
		t.Errorf("%d tokens revoked, %v", w.idp.Count("revoked"), err)
	}
	store.full.Store(false)
	if err := w.client.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Get(t.Context(), w.server.id("me")); !errors.Is(err, vault.ErrMissing) {
		t.Errorf("the sign-in is back: %v", err)
	}
}

// TestMachineWithFullStore has weir sign in by itself once, although the store takes nothing.
func TestMachineWithFullStore(t *testing.T) {
	w, store, _ := fullWorld(t)
	w.idp.Secret = "hunter2"
	w.server.Flow, w.server.ClientID, w.server.ClientSecret, w.server.Issuer, w.server.Configured = FlowClientCredentials, "configured", "hunter2", w.idp.URL, true
	store.full.Store(true)
	for range 5 {
		w.welcome(Shared)
		w.pass(cachedTime)
	}
	if n := w.idp.Count("sign-in"); n != 1 {
		t.Errorf("%d sign-ins", n)
	}
	store.full.Store(false)
	if err := w.client.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestUnsavedPauses makes attempts to store a grant after 1 s, 2 s and so on, and ends with the first
// that succeeds.
func TestUnsavedPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &fullStore{Store: vault.NewMemory(nil)}
		store.full.Store(true)
		var stored atomic.Int32
		u := newUnsaved(store, slog.New(slog.DiscardHandler), func(vault.ID) { stored.Add(1) })
		id := vault.ID{Kind: vault.Token, Server: "notes https://notes.example.com/mcp"}
		if !u.add(id, vault.Record{}, &grant{Issuer: "https://id.example", Access: "t"}, errors.New("full")) {
			t.Fatal("it was not taken")
		}
		for _, want := range []struct {
			after time.Duration
			tries int32
		}{{900 * time.Millisecond, 0}, {time.Second, 1}, {2 * time.Second, 2}, {4 * time.Second, 3}, {time.Hour, 65}} {
			time.Sleep(want.after)
			synctest.Wait()
			if n := store.tries.Load(); n != want.tries {
				t.Errorf("%d attempts after %v more, want %d", n, want.after, want.tries)
			}
		}
		store.full.Store(false)
		time.Sleep(maxStorePause)
		synctest.Wait()
		if r, err := store.Get(t.Context(), id); err != nil || r.Issuer != "https://id.example" || stored.Load() != 1 {
			t.Errorf("the store has %v, %v after %d changes", r, err, stored.Load())
		}
		if u.run != nil || len(u.grants) != 0 {
			t.Error("attempts go on without a grant")
		}
		if err := u.close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// TestNoRoom has as many grants wait for the store as may: the issuer is not asked for one that would be
// lost.
func TestNoRoom(t *testing.T) {
	w, store, _ := fullWorld(t)
	w.signIn("me")
	store.full.Store(true)
	u := w.client.unsaved
	for i := range maxUnsaved {
		u.grants[vault.ID{Kind: vault.Token, Server: fmt.Sprint("other", i, " https://other.example")}] = &unsavedGrant{grant: &grant{}}
	}
	w.pass(50 * time.Minute)
	w.welcome("me") // the token still serves
	w.pass(15 * time.Minute)
	if _, err := w.client.Token(t.Context(), w.server, "me"); err == nil || errors.As(err, new(*SignInError)) || !strings.Contains(err.Error(), "credentials.store") {
		t.Errorf("after its end: %v", err)
	}
	if n := w.idp.Count("refreshed"); n != 0 {
		t.Errorf("%d refreshes", n)
	}
	clear(u.grants)
	store.full.Store(false)
	w.welcome("me")
	if n := w.idp.Count("refreshed"); n != 1 || u.kept != 0 {
		t.Errorf("%d refreshes with room again, %d places are kept", n, u.kept)
	}
}

// stuckStore is a store in which another process holds the lock of some credentials.
type stuckStore struct {
	vault.Store
	stuck func(id vault.ID) bool
}

func (s *stuckStore) Lock(ctx context.Context, id vault.ID) (func(), error) {
	if s.stuck(id) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return s.Store.Lock(ctx, id)
}

// TestOneStuckGrantKeepsNoOther: at the end, grants whose credential is locked elsewhere do not use up
// the time of the others.
func TestOneStuckGrantKeepsNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const all, stuck = 40, 5
		store := &stuckStore{Store: vault.NewMemory(nil), stuck: func(id vault.ID) bool { return strings.HasPrefix(id.Server, "stuck") }}
		u := newUnsaved(store, slog.New(slog.DiscardHandler), func(vault.ID) {})
		for i := range all {
			id := vault.ID{Kind: vault.Token, Server: fmt.Sprint("free", i, " https://notes.example.com")}
			if i < stuck {
				id.Server = fmt.Sprint("stuck", i, " https://notes.example.com")
			}
			u.grants[id] = &unsavedGrant{grant: &grant{Issuer: "https://id.example", Access: "t"}}
		}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if err := u.close(ctx); err == nil {
			t.Error("grants are lost without an error")
		}
		if n := len(u.grants); n != stuck {
			t.Errorf("%d grants are lost, %d of them are locked elsewhere", n, stuck)
		}
	})
}
