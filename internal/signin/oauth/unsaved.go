package oauth

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-mcp/weir/internal/signin/vault"
)

// Times and bound of grants that the store has not taken.
const (
	storePause    = time.Second // before the first attempt to store them; then twice that
	maxStorePause = time.Minute
	storeTime     = 10 * time.Second // of one attempt
	maxUnsaved    = 1000
	savesAtOnce   = 16 // attempts at the same time: one that waits for a lock does not hold up the others
)

// unsaved has the grants that the store did not take, and stores them later. The refresh token of the
// record in the store may be spent, so without them the sign-in would be lost.
//
//	refresh ─▶ the store fails ─▶ add ─▶ newest: calls go on with the grant
//	                               └──▶ run: another attempt after 1 s, 2 s, … 1 min
//	close: a last attempt
type unsaved struct {
	store  vault.Store
	log    *slog.Logger
	stored func(id vault.ID) // called when the record of an id may have changed

	ctx context.Context // ends with close
	end context.CancelFunc

	mu     sync.Mutex // guards below
	grants map[vault.ID]*unsavedGrant
	kept   int           // places that reserve keeps for further grants
	run    chan struct{} // closed when the goroutine has ended; nil if there is none
	closed bool
}

// unsavedGrant is a grant that is to replace the record old.
type unsavedGrant struct {
	grant *grant
	old   vault.Record
}

func newUnsaved(store vault.Store, log *slog.Logger, stored func(vault.ID)) *unsaved {
	u := &unsaved{store: store, log: log, stored: stored, grants: map[vault.ID]*unsavedGrant{}}
	u.ctx, u.end = context.WithCancel(context.Background())
	return u
}

// reserve keeps a place for a grant until free is called. An issuer must not be asked for a grant that
// would have no place: the token that it replaces is spent then.
func (u *unsaved) reserve(id vault.ID) (free func(), err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.grants[id] == nil && len(u.grants)+u.kept >= maxUnsaved {
		return nil, fmt.Errorf("the token for %q is not refreshed: %d renewed sign-ins wait for the store, which takes none (credentials.store)", ServerName(id), len(u.grants))
	}
	u.kept++
	return func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		u.kept--
	}, nil
}

// add takes a grant that the store did not take in the place of old, because of err. It returns false
// if there are too many of them.
func (u *unsaved) add(id vault.ID, old vault.Record, g *grant, err error) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	before := u.grants[id]
	if before == nil && len(u.grants) >= maxUnsaved {
		return false
	}
	u.grants[id] = &unsavedGrant{g, old}
	if before == nil {
		u.log.Warn("a renewed sign-in cannot be stored; weir goes on with it and tries again. If weir ends before, the server may need another sign-in", "server", ServerName(id), "err", err)
	}
	if u.run == nil && !u.closed {
		u.run = make(chan struct{})
		go u.retry(u.run)
	}
	return true
}

// newest returns the grant that waits for the store, if the record that it replaces is still there:
// r, or an unknown one because of err. It returns nil if there is none, or if the record is a newer
// one.
func (u *unsaved) newest(id vault.ID, r vault.Record, err error) *cached {
	u.mu.Lock()
	defer u.mu.Unlock()
	g := u.grants[id]
	if g == nil {
		return nil
	}
	known := err == nil || errors.Is(err, vault.ErrMissing)
	if known && (r.Issuer != g.old.Issuer || !bytes.Equal(r.Data, g.old.Data)) {
		delete(u.grants, id) // a person has signed in or out, or another process has refreshed
		return nil
	}
	return &cached{grant: g.grant, record: g.old}
}

// drop forgets a grant: the store has a newer one, or none is wanted.
func (u *unsaved) drop(id vault.ID) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.grants, id)
}

// retry stores the grants, with pauses that grow, until there are none or close is called.
func (u *unsaved) retry(done chan struct{}) {
	defer close(done)
	pause := storePause
	timer := time.NewTimer(pause)
	defer timer.Stop()
	for {
		select {
		case <-u.ctx.Done():
			return
		case <-timer.C:
		}
		_ = u.saveAll(u.ctx) // add has logged the reason
		u.mu.Lock()
		if len(u.grants) == 0 {
			u.run = nil
			u.mu.Unlock()
			return
		}
		u.mu.Unlock()
		pause = min(2*pause, maxStorePause)
		timer.Reset(pause)
	}
}

// saveAll makes one attempt to store each grant.
func (u *unsaved) saveAll(ctx context.Context) error {
	u.mu.Lock()
	ids := slices.Collect(maps.Keys(u.grants))
	u.mu.Unlock()
	failed := make([]error, len(ids))
	var next atomic.Int64
	var workers sync.WaitGroup
	for range min(savesAtOnce, len(ids)) {
		workers.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(ids)); i = next.Add(1) - 1 {
				if err := u.save(ctx, ids[i]); err != nil {
					failed[i] = fmt.Errorf("the renewed sign-in at %q: %w", ServerName(ids[i]), err)
				}
			}
		})
	}
	workers.Wait()
	return errors.Join(failed...)
}

// save makes one attempt to store a grant. It takes the lock of the credential, because a refresh
// would replace the grant that save has stored meanwhile.
func (u *unsaved) save(ctx context.Context, id vault.ID) error {
	ctx, cancel := context.WithTimeout(ctx, storeTime)
	defer cancel()
	unlock, err := u.store.Lock(ctx, id)
	if err != nil {
		return err
	}
	defer unlock()
	u.mu.Lock()
	g := u.grants[id]
	u.mu.Unlock()
	if g == nil {
		return nil
	}
	data, err := json.Marshal(g.grant)
	if err != nil {
		return err
	}
	next := vault.Record{Issuer: g.grant.Issuer, Data: data}
	switch err := u.store.Swap(ctx, id, g.old, next); {
	case err == nil:
		u.log.Info("the renewed sign-in is stored now", "server", ServerName(id))
	case errors.Is(err, vault.ErrChanged): // by a person, or by another process
	default:
		return err
	}
	u.mu.Lock()
	if u.grants[id] == g {
		delete(u.grants, id)
	}
	u.mu.Unlock()
	u.stored(id)
	return nil
}

// close ends the attempts with a last one. The error names the grants that are lost.
func (u *unsaved) close(ctx context.Context) error {
	u.mu.Lock()
	u.closed = true
	run := u.run
	u.mu.Unlock()
	u.end()
	if run != nil {
		select {
		case <-run:
		case <-ctx.Done():
		}
	}
	return u.saveAll(ctx)
}
