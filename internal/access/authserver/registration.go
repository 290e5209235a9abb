package authserver

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/weir-mcp/weir/internal/store"
)

// Bounds of registrations. One that no person has signed in with ends soon, and makes room for a new one.
const (
	maxRegistered = 1000
	unusedTime    = 24 * time.Hour
	usedTime      = 90 * 24 * time.Hour
	useStep       = 24 * time.Hour // between notes of a use
)

// clientIDPrefix marks the ids of clients that have registered themselves.
const clientIDPrefix = "weir-"

// registrations are the clients that have registered themselves.
type registrations struct{ *shelf }

func clientKey(id string) string { return clientPrefix + store.Hash(id) }

// client finds a client that has registered itself.
func (s *registrations) client(ctx context.Context, id string) (*Client, error) {
	var c Client
	_, ok, err := s.load(ctx, clientKey(id), &c)
	if err != nil {
		return nil, err
	}
	if !ok || c.ID != id {
		return nil, unknownClient("the client is not known here; its registration may have ended because no person has signed in with it")
	}
	if strings.HasPrefix(c.Method, "client_secret") {
		c.Secret = s.secretOf(c.ID)
	}
	return &c, nil
}

// room makes room for one more registration: the oldest one that no person has signed in with goes.
func (s *registrations) room(ctx context.Context) error {
	count := 0
	var oldest store.Doc
	var made int64
	for d, err := range s.docs.List(ctx, clientPrefix) {
		if err != nil {
			return err
		}
		count++
		var c Client
		if s.decode(d, &c) && c.Used == 0 && (oldest.Rev == 0 || c.Made < made) {
			oldest, made = d, c.Made
		}
	}
	if count < maxRegistered {
		return nil
	}
	if oldest.Rev == 0 {
		return &refusal{http.StatusTooManyRequests, "temporarily_unavailable", "there are too many registered clients"}
	}
	if err := s.docs.Delete(ctx, oldest.Key, oldest.Rev); err != nil && !errors.Is(err, store.ErrConflict) {
		return err
	}
	return nil
}

// use notes that a registered client is in use, so that its registration does not end.
func (s *registrations) use(ctx context.Context, id string) {
	if !strings.HasPrefix(id, clientIDPrefix) {
		return
	}
	key := clientKey(id)
	_, err := store.Change(ctx, s.docs, key, func(d store.Doc) ([]byte, time.Duration, error) {
		var c Client
		if !s.decode(d, &c) || s.unix()-c.Used < int64(useStep/time.Second) {
			return nil, 0, store.ErrKeep
		}
		c.Used = s.unix()
		value, err := s.encode(key, &c)
		return value, usedTime, err
	})
	if err != nil && !errors.Is(err, store.ErrKeep) {
		s.log.Warn("the use of a registered client is not noted", "err", err)
	}
}
