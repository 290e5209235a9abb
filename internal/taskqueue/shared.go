package taskqueue

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	mathrand "math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/weir-mcp/weir/internal/store"
)

// Docs is the part of a store that a Shared needs. All replicas of a group use the same documents.
type Docs interface {
	Get(ctx context.Context, key string) (store.Doc, error)
	Set(ctx context.Context, key string, value []byte, rev uint64, ttl time.Duration) (uint64, error)
	Delete(ctx context.Context, key string, rev uint64) error
	Follow(keyOrPrefix string, f func(store.Doc)) (stop func(), err error)
}

// SharedOptions configures a Shared. Docs, Group and Options.Run must be set.
type SharedOptions struct {
	// Options are those of the replica: how many tasks run here at once, for how long, and who is
	// told. Max bounds the waiting tasks of the group, RetainAge how long ended ones can be read.
	// Store, RetainCount and RetainBytes have no meaning: documents expire, and their store is
	// bounded.
	Options
	Docs Docs
	// Group is the name of the queue that the replicas share: letters, digits, "-" and "_".
	Group string
	// Close ends the connection to the store, after everything else. It may be nil.
	Close func()
}

// The times of a holder's document. A replica that could not renew its own for fenceAfter ends its
// tasks, before the document expires and others take them for interrupted.
const (
	holderTTL   = 20 * time.Second
	renewEvery  = 3 * time.Second
	fenceAfter  = 15 * time.Second
	changeLimit = 12 * time.Second // an election of the store fits in
	aheadAfter  = 5 * time.Second  // a task that has waited so long stands in line with the calls here
)

// maxStarts is how often a task with Spec.Idempotent is started.
const maxStarts = 3

// Shared is a queue whose submitted tasks are documents: replicas on several machines take them from
// one line. A task starts at most once, unless it is idempotent. Calls of Do are the replica's own.
// All methods are safe for concurrent use.
//
//	t.GROUP.ID   a task: pending ─CAS─▶ running{incarnation} ─CAS─▶ completed, failed, cancelled
//	th.GROUP.INC its holder lives: 20 s, renewed each 3 s
//
// A task is changed by compare-and-set alone. If the document of its holder is gone, any replica
// ends it as interrupted, or, if it is idempotent, puts it back into the line.
type Shared struct {
	o    SharedOptions
	log  *slog.Logger
	q    *Queue // the places to run, and the line of Do
	stop func()

	ctx     context.Context // ends when Close has waited for the running tasks
	end     context.CancelFunc
	wake    chan struct{} // asks the loop to look for tasks; one is enough
	running sync.WaitGroup
	loops   sync.WaitGroup

	mu     sync.Mutex // guards below
	inc    string     // this replica's incarnation: new after each fence
	rev    uint64     // of its holder document
	fence  *time.Timer
	seen   map[string]*sharedItem
	line   map[string]*sharedItem // those of seen that wait
	held   map[string]*held
	taken  int // since the task that has waited longest was taken
	closed bool
}

// sharedRecord is a task as its document has it.
type sharedRecord struct {
	V int `json:"v"`
	Record
	Holder string `json:"holder,omitempty"`
}

// sharedItem is what a replica remembers of a task: neither payload nor result.
type sharedItem struct {
	rev   uint64
	rec   sharedRecord
	lost  bool          // another replica was faster; wait for the news
	ended chan struct{} // closed when the task has ended, or is gone
	over  sync.Once     // closes ended: a store that loses changes can tell of an earlier state afterwards
}

// held is a task that this replica has claimed.
type held struct {
	inc    string
	log    tail
	cancel context.CancelCauseFunc

	// The three are guarded by Shared.mu.
	claimed bool // the store has confirmed it
	started bool // it has a place to run
	lost    bool // cancelled, or taken by others: its end is not written
}

// NewShared returns a replica's view of a shared queue.
func NewShared(o SharedOptions) (*Shared, error) {
	if err := store.CheckKey("t."+o.Group, false); err != nil || strings.Contains(o.Group, ".") || o.Group == "gw" || o.Group == "gwid" {
		return nil, fmt.Errorf("the group of a shared queue has letters, digits, - and _ in its name, and is not gw or gwid, where a gateway keeps its tasks: not %.40q", o.Group)
	}
	s := &Shared{
		o: o, inc: rand.Text()[:8], wake: make(chan struct{}, 1), seen: map[string]*sharedItem{}, line: map[string]*sharedItem{}, held: map[string]*held{},
	}
	local := o.Options
	local.Store, local.Run = nil, s.run
	var err error
	if s.q, err = New(local); err != nil {
		return nil, err
	}
	s.o.Options, s.log = s.q.o, s.q.log // with the defaults
	s.o.Run = o.Run
	s.ctx, s.end = context.WithCancel(context.Background())
	s.fence = time.AfterFunc(fenceAfter, s.fenced)
	if s.stop, err = o.Docs.Follow(s.key(""), s.follow); err != nil {
		s.end()
		s.fence.Stop()
		return nil, errors.Join(fmt.Errorf("follow the shared tasks: %w", err), s.q.Close(s.ctx))
	}
	s.loops.Go(s.loop)
	return s, nil
}

func (s *Shared) key(id string) string     { return "t." + s.o.Group + "." + id }
func (s *Shared) holder(inc string) string { return "th." + s.o.Group + "." + inc }

// follow learns the state of a task from the store.
func (s *Shared) follow(d store.Doc) {
	id := strings.TrimPrefix(d.Key, s.key(""))
	if d.Rev == 0 {
		s.mu.Lock()
		if it := s.seen[id]; it != nil {
			it.over.Do(func() { close(it.ended) }) // removed by an operator, if it has not ended
			delete(s.seen, id)
			delete(s.line, id)
		}
		s.mu.Unlock()
		return
	}
	rec, err := readShared(d)
	if err != nil {
		s.log.Error("a shared task cannot be read", "key", d.Key, "err", err)
		return
	}
	s.saw(d.Rev, rec)
}

func readShared(d store.Doc) (rec sharedRecord, err error) {
	err = json.Unmarshal(d.Value, &rec)
	if err == nil && rec.ID == "" {
		err = errors.New("it has no id")
	}
	return rec, err
}

// saw remembers the newest state of a task.
func (s *Shared) saw(rev uint64, rec sharedRecord) {
	s.mu.Lock()
	it := s.seen[rec.ID]
	if it == nil {
		it = &sharedItem{ended: make(chan struct{})}
		s.seen[rec.ID] = it
	}
	if rev <= it.rev {
		s.mu.Unlock()
		return
	}
	rec.Payload = nil
	if rec.Result != nil {
		rec.Result = json.RawMessage("{}") // says that there is one
	}
	it.rev, it.rec, it.lost = rev, rec, false
	if rec.State == Pending {
		s.line[rec.ID] = it
	} else {
		delete(s.line, rec.ID)
	}
	if rec.State.Final() {
		it.over.Do(func() { close(it.ended) })
	}
	if h := s.held[rec.ID]; h != nil && h.claimed && !h.lost && !rec.heldBy(h.inc) {
		h.lost = true
		cause := ErrInterrupted
		if rec.State == Cancelled {
			cause = ErrCancelled
		}
		if h.cancel != nil {
			h.cancel(cause)
		}
	}
	s.mu.Unlock()
	if rec.State == Pending {
		s.look()
	}
}

// heldBy reports whether the task runs at a holder.
func (rec *sharedRecord) heldBy(inc string) bool { return rec.State == Running && rec.Holder == inc }

// look asks the loop to look for tasks.
func (s *Shared) look() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// change writes a task anew. f changes the newest record and returns false if nothing is to be done,
// also because an earlier attempt was applied. change returns the record that is there at the end.
func (s *Shared) change(ctx context.Context, id string, f func(*sharedRecord) bool) (rec sharedRecord, changed bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, changeLimit)
	defer cancel()
	for wait := 5 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		var doc store.Doc
		if doc, err = s.o.Docs.Get(ctx, s.key(id)); err == nil {
			if doc.Rev == 0 {
				return rec, false, ErrNotFound
			}
			if rec, err = readShared(doc); err != nil {
				return rec, false, err
			}
			if !f(&rec) {
				s.saw(doc.Rev, rec)
				return rec, changed, nil
			}
			changed = true // if the write is confirmed, or found at the next attempt
			var rev uint64
			if rev, err = s.write(ctx, rec, doc.Rev); err == nil {
				s.saw(rev, rec)
				return rec, true, nil
			}
			if errors.Is(err, store.ErrConflict) {
				changed = false
			}
		}
		if !errors.Is(err, store.ErrConflict) && !errors.Is(err, store.ErrUnavailable) {
			return rec, false, err
		}
		select {
		case <-ctx.Done():
			return rec, false, err
		case <-time.After(wait/2 + mathrand.N(wait)):
		}
	}
}

// write writes the document of a task. One that has ended expires.
func (s *Shared) write(ctx context.Context, rec sharedRecord, rev uint64) (uint64, error) {
	rec.V = 1
	body, err := json.Marshal(rec)
	if err != nil {
		return 0, err
	}
	var ttl time.Duration
	if rec.State.Final() {
		ttl = rec.Retain
	}
	return s.o.Docs.Set(ctx, s.key(rec.ID), body, rev, ttl)
}

// Submit puts a task into the line of the group and returns when the store has it. The error is a
// *FullError, ErrClosed, or what the store said.
func (s *Shared) Submit(spec Spec) (Task, error) {
	rec := sharedRecord{Record: s.q.record(&spec)}
	rec.ID = rand.Text()
	s.mu.Lock()
	closed, waiting := s.closed, len(s.line)
	s.mu.Unlock()
	if closed {
		return Task{}, ErrClosed
	}
	if status := s.q.Status(); waiting >= status.Max {
		status.Queued = waiting
		return Task{}, &FullError{status}
	}
	ctx, cancel := context.WithTimeout(s.ctx, changeLimit)
	defer cancel()
	rev, err := s.write(ctx, rec, 0)
	if errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrConflict) {
		// The write may have been made: the id is new, so a document with it is this one.
		if doc, failed := s.o.Docs.Get(ctx, s.key(rec.ID)); failed == nil && doc.Rev != 0 {
			rev, err = doc.Rev, nil
		}
	}
	switch {
	case errors.Is(err, store.ErrFull) && len(rec.Payload) > store.MaxValue/2:
		return Task{}, fmt.Errorf("the arguments of a task in a shared queue have at most %d bytes, with all that weir adds", store.MaxValue)
	case err != nil:
		return Task{}, fmt.Errorf("%w: %w", ErrStore, err)
	}
	s.saw(rev, rec)
	return rec.task(), nil
}

// Do runs a call on this replica; see [Queue.Do].
func (s *Shared) Do(ctx context.Context, spec Spec) (json.RawMessage, error) {
	result, err := s.q.Do(ctx, spec)
	s.look() // a place may be free
	return result, err
}

// Status returns the replica's places, and the waiting tasks of the group with the calls that wait
// here.
func (s *Shared) Status() Status {
	status := s.q.Status()
	s.mu.Lock()
	defer s.mu.Unlock()
	status.Queued += len(s.line)
	return status
}

// Resize changes the number of tasks that may run here, and wait; zero leaves a number unchanged.
func (s *Shared) Resize(concurrency, max int) {
	s.q.Resize(concurrency, max)
	s.look()
}

// read returns the newest state of an owner's task.
func (s *Shared) read(ctx context.Context, owner, id string) (Task, error) {
	if store.CheckKey(s.key(id), false) != nil || strings.Contains(id, ".") {
		return Task{}, ErrNotFound
	}
	doc, err := s.o.Docs.Get(ctx, s.key(id))
	if err != nil {
		return Task{}, fmt.Errorf("%w: %w", ErrStore, err)
	}
	if doc.Rev == 0 {
		return Task{}, ErrNotFound
	}
	rec, err := readShared(doc)
	if err != nil || rec.Owner != owner {
		return Task{}, ErrNotFound
	}
	s.saw(doc.Rev, rec)
	s.mu.Lock()
	if h := s.held[id]; h != nil && rec.State == Running {
		h.tell(&rec)
	}
	s.mu.Unlock()
	return rec.task(), nil
}

// tell brings the log's tail into a record.
func (h *held) tell(rec *sharedRecord) (changed bool) {
	text, seq, cut, last := h.log.read()
	if seq <= rec.LogSeq {
		return false
	}
	rec.LogTail, rec.LogSeq, rec.LogCut, rec.Updated = text, seq, cut, last
	return true
}

// Get returns a task of an owner's, or ErrNotFound.
func (s *Shared) Get(owner, id string) (Task, error) {
	ctx, cancel := context.WithTimeout(context.Background(), changeLimit)
	defer cancel()
	return s.read(ctx, owner, id)
}

// Wait waits until a task of an owner ends and returns it, or returns ErrNotFound. If ctx ends
// first, it returns the current task and ctx's error.
func (s *Shared) Wait(ctx context.Context, owner, id string) (Task, error) {
	t, err := s.Get(owner, id)
	if err != nil || t.State.Final() {
		return t, err
	}
	s.mu.Lock()
	it := s.seen[id]
	s.mu.Unlock()
	if it != nil {
		select {
		case <-it.ended:
		case <-ctx.Done():
			err = ctx.Err()
		case <-s.ctx.Done():
			err = ErrClosed
		}
	}
	t, failed := s.Get(owner, id)
	return t, errors.Join(err, failed)
}

// List returns an owner's tasks of the whole group in order of arrival: at most limit tasks after the
// one with id after ("" for the first), without results. more reports that there are further ones.
// An unknown id is ErrNotFound.
func (s *Shared) List(owner, after string, limit int) (tasks []Task, more bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var own []*sharedItem
	for _, it := range s.seen {
		if it.rec.Owner == owner {
			own = append(own, it)
		}
	}
	order := func(a, b *sharedItem) int {
		return cmp.Or(a.rec.Created.Compare(b.rec.Created), strings.Compare(a.rec.ID, b.rec.ID))
	}
	slices.SortFunc(own, order)
	if after != "" {
		at := slices.IndexFunc(own, func(it *sharedItem) bool { return it.rec.ID == after })
		if at < 0 {
			return nil, false, ErrNotFound
		}
		own = own[at+1:]
	}
	if len(own) > limit {
		own, more = own[:limit], true
	}
	for _, it := range own {
		rec := it.rec
		if h := s.held[rec.ID]; h != nil && rec.State == Running {
			h.tell(&rec)
		}
		tasks = append(tasks, rec.task())
	}
	return tasks, more, nil
}

// Cancel cancels a task of an owner, on whichever replica it is, or returns ErrNotFound. When Cancel
// returns, the task is cancelled, unless it had ended before; the Task tells which. A replica that
// runs it ends it within milliseconds.
func (s *Shared) Cancel(owner, id string) (Task, error) {
	if _, err := s.Get(owner, id); err != nil {
		return Task{}, err
	}
	rec, _, err := s.change(context.Background(), id, func(rec *sharedRecord) bool {
		if rec.State.Final() {
			return false
		}
		rec.end(outcome{Cancelled, ReasonCancelled}, nil, ErrCancelled)
		return true
	})
	switch {
	case errors.Is(err, ErrNotFound):
		return Task{}, err
	case err != nil:
		return Task{}, fmt.Errorf("%w: %w", ErrStore, err)
	}
	return rec.task(), nil
}

// end writes the end into the record.
func (rec *sharedRecord) end(end outcome, result json.RawMessage, err error) {
	rec.State, rec.Reason, rec.Result, rec.Payload, rec.Holder = end.state, end.reason, result, nil, ""
	rec.Ended = time.Now()
	rec.Updated = rec.Ended
	rec.Error = ""
	if err != nil {
		rec.Error = err.Error()
	}
}
