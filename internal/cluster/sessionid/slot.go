package sessionid

import (
	"context"
	"encoding/json"
	"errors"
	"hash/maphash"
	"time"

	"github.com/weir-mcp/weir/internal/store"
)

// record is what a slot has of a session that has been ended, or that has more than its id says.
type record struct {
	Born      int64    `json:"b"` // seconds
	Ended     bool     `json:"ended,omitempty"`
	Level     string   `json:"level,omitempty"`     // of log messages
	Resources []string `json:"resources,omitempty"` // to which it is subscribed
}

// slot is a document with records of one principal. Where it is full, the record of the oldest session
// goes, and the floor rises to the birth of that session: sessions up to the floor that have no record
// count as ended. So the documents of a principal are bounded, and no session that was ended works
// again.
type slot struct {
	V        int                `json:"v"`
	Floor    int64              `json:"floor,omitempty"`    // seconds
	Sessions map[string]*record `json:"sessions,omitempty"` // by the hash of the id
}

const (
	slotVersion = 2
	// A principal has one slot for each first character of a hash, 32 in all, each with slotRecords.
	slotRecords = 128
	// slotBytes bounds a slot. Its largest record does not count if it has more than half of that: one
	// session with many subscriptions does not end others.
	slotBytes = 64 << 10
	// recordBytes bounds one record: the URIs of its subscriptions.
	recordBytes = 128 << 10
	// changeTries bounds how often a change is repeated after other changes of the document.
	changeTries = 5
	// changeTime bounds them all: the election of a leader fits in.
	changeTime = 12 * time.Second
	// turns is how many slots can be changed at a time.
	turns = 256
)

var (
	errBusy  = errors.New("the session changes too often")
	errLarge = errors.New("the record of the session is over its bound")
)

// place says where the record of a session is: its slot, and its name there.
type place struct {
	key, name string
	born      int64
}

// placeOf returns the place of a principal's session.
func placeOf(principal, own string, born int64) place {
	name := store.Hash(own)
	return place{store.SessionKeys + store.Hash(principal) + "." + name[:1], name, born}
}

// slotAt returns the slot of a place. A document of a later version counts as the end of all its
// sessions: what it says is not known.
func (i *Ids) slotAt(ctx context.Context, at place) (s slot, rev uint64, err error) {
	doc, err := i.docs.Get(ctx, at.key)
	if err != nil || doc.Rev == 0 {
		return slot{V: slotVersion}, 0, err
	}
	if json.Unmarshal(doc.Value, &s) != nil || s.V != slotVersion {
		s = slot{V: slotVersion, Floor: time.Now().Unix()}
	}
	return s, doc.Rev, nil
}

// of returns a copy of the record of a place.
func (s *slot) of(at place) record {
	if r := s.Sessions[at.name]; r != nil {
		return *r
	}
	return record{Born: at.born, Ended: at.born <= s.Floor}
}

// put replaces the record of a place and drops records of sessions that cannot be adopted any more. It
// returns the document and how long that is needed.
func (s *slot) put(at place, r record) (value []byte, left time.Duration, err error) {
	if s.Sessions == nil {
		s.Sessions = map[string]*record{}
	}
	s.Sessions[at.name] = &r
	over := time.Now().Add(-life).Unix()
	newest := s.Floor
	for name, r := range s.Sessions {
		newest = max(newest, r.Born)
		if r.Born <= over {
			delete(s.Sessions, name)
		}
	}
	for {
		if value, err = json.Marshal(s); err != nil {
			return nil, 0, err
		}
		if len(s.Sessions) <= slotRecords && (len(value) <= slotBytes || len(value)-s.large() <= slotBytes) {
			return value, time.Until(time.Unix(newest, 0).Add(life)), nil
		}
		s.raise()
	}
}

// large returns the size of the largest record, 0 if it has at most half of the slot.
func (s *slot) large() (most int) {
	for _, r := range s.Sessions {
		most = max(most, r.size())
	}
	if most <= slotBytes/2 {
		return 0
	}
	return most
}

// raise drops the record of the oldest session.
func (s *slot) raise() {
	oldest := ""
	for name, r := range s.Sessions {
		if o := s.Sessions[oldest]; o == nil || r.Born < o.Born || r.Born == o.Born && name < oldest {
			oldest = name
		}
	}
	s.Floor = max(s.Floor, s.Sessions[oldest].Born)
	delete(s.Sessions, oldest)
}

// size returns how many bytes the record has in its slot.
func (r *record) size() int {
	value, _ := json.Marshal(r) // only texts and numbers
	return len(value)
}

// get returns the record of a session.
func (i *Ids) get(ctx context.Context, at place) (record, error) {
	s, _, err := i.slotAt(ctx, at)
	return s.of(at), err
}

// change changes the record of a session that has not been ended. f reports whether there is something
// to change; it runs again on the newest record if its slot has changed meanwhile. The error is errLarge
// if f adds a subscription for which the record has no room.
func (i *Ids) change(ctx context.Context, at place, f func(*record) bool) error {
	turn := i.turns[maphash.String(i.seed, at.key)%turns]
	select {
	case turn <- struct{}{}:
		defer func() { <-turn }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, changeTime)
	defer cancel()
	err := errBusy
	for range changeTries {
		s, rev, failed := i.slotAt(ctx, at)
		if failed != nil {
			return failed
		}
		r := s.of(at)
		had := len(r.Resources)
		if r.Ended || !f(&r) {
			return nil
		}
		if len(r.Resources) > had && r.size() > recordBytes {
			return errLarge
		}
		value, left, failed := s.put(at, r)
		if failed != nil {
			return failed
		}
		_, err = i.docs.Set(ctx, at.key, value, rev, left)
		if !errors.Is(err, store.ErrConflict) && !errors.Is(err, store.ErrUnavailable) {
			return err
		}
	}
	return err
}
