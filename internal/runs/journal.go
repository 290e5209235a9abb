package runs

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/result"
	"github.com/weir-mcp/weir/internal/store"
)

// Keys of the documents.
const (
	headPrefix  = store.RunKeys + "h." // + OWNER.RUN: the calls of a run
	valuePrefix = store.RunKeys + "v." // + RUN.NUMBER: the result of one of them
)

const (
	// maxJournals bounds the journals of one principal at one profile. The oldest goes first.
	maxJournals = 32
	// maxRead bounds a result of a read-only tool in a journal, and maxReads all of them of one run. Beyond,
	// a resumed run makes the call again.
	maxRead, maxReads = 64 << 10, 1 << 20
	// maxInline bounds a result in a document of its own. A larger one is kept like a result that is held back.
	maxInline = 256 << 10
	// storeTime bounds one request to the store.
	storeTime = 5 * time.Second
	// endTime bounds the requests at the end of a run.
	endTime = 10 * time.Second
)

// last is the name of the newest run of a principal, for a client that has lost the answer with the id.
const last = "last"

// Options of Journals.
type Options struct {
	Docs store.Docs
	// TTL is how long a journal is kept.
	TTL time.Duration
	// Keep keeps a large result with the mark of its label for a principal at a profile, and Kept returns it.
	Keep func(ctx context.Context, principal, profile, mark string, value json.RawMessage) (handle string, err error)
	Kept func(ctx context.Context, principal, profile, handle string) (json.RawMessage, error)
}

// Journals keeps the journals of runs. It outlives reloads, and is safe for concurrent use.
type Journals struct {
	o Options

	mu   sync.Mutex          // guards below
	live map[string]struct{} // keys of the runs that go on in this process
}

// NewJournals returns Journals over a store.
func NewJournals(o Options) *Journals {
	return &Journals{o: o, live: map[string]struct{}{}}
}

// callState is what a journal knows of a call.
type callState string

const (
	waiting callState = "w" // it has not been sent: it is checked, or a person is asked
	started callState = "s" // nothing more than that it was sent
	done    callState = "d" // its result
	failed  callState = "f" // it did nothing, by the answer of the server or of weir
	unsure  callState = "u" // its answer was lost
)

// madeCall is a call in a journal.
type madeCall struct {
	Key    string    `json:"k"` // hash of the tool and the arguments
	State  callState `json:"s"`
	Writes bool      `json:"w,omitempty"` // its tool is not read-only
	Again  bool      `json:"a,omitempty"` // it may run twice: read-only or idempotent by its hints
}

// head is the document of a run. Its revision is the proof of who writes it: a run that is resumed elsewhere
// loses it.
type head struct {
	V     int        `json:"v"`
	At    time.Time  `json:"at"`
	Epoch int        `json:"epoch"` // how often the run was resumed
	Calls []madeCall `json:"calls"`
}

const headVersion = 2

// journal is of one run. It is safe for concurrent use.
type journal struct {
	of                 *Journals
	id                 string
	key                string // of the head
	principal, profile string
	resumed            bool

	mu     sync.Mutex // guards below
	rev    uint64
	head   head
	before map[string][]int // by key, the calls of earlier runs that were not met again
	reads  map[int]labelled // results of read-only calls that are not in the store
	size   int              // of reads
	writes bool             // a call that writes is in the head
	lost   error            // the run went on elsewhere, or the store has no room
}

// ownerKey is the part of a key that stands for a principal at a profile.
func ownerKey(principal, profile string) string {
	return store.Hash("run\x00" + principal + "\x00" + profile)
}

// begin returns the journal of a new run.
func (j *Journals) begin(principal, profile string) *journal {
	id := "run_" + strings.ToLower(rand.Text()[:16])
	r := &journal{of: j, id: id, key: headPrefix + ownerKey(principal, profile) + "." + id, principal: principal, profile: profile, reads: map[int]labelled{}}
	r.head = head{V: headVersion, At: time.Now()}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.live[r.key] = struct{}{}
	return r
}

// resume returns the journal of a run that has ended. From then on no other process makes calls of this run.
func (j *Journals) resume(ctx context.Context, principal, profile, id string) (*journal, error) {
	if id == last {
		newest, err := j.newest(ctx, principal, profile)
		if err != nil {
			return nil, err
		}
		id = newest
	}
	if !isRunID(id) {
		return nil, unknownRun(id)
	}
	r := &journal{of: j, id: id, key: headPrefix + ownerKey(principal, profile) + "." + id, principal: principal, profile: profile, resumed: true, before: map[string][]int{}, reads: map[int]labelled{}}
	j.mu.Lock()
	_, going := j.live[r.key]
	if !going {
		j.live[r.key] = struct{}{}
	}
	j.mu.Unlock()
	if going {
		return nil, result.NewError(result.ArgsInvalid, "the run "+id+" has not ended; resume it when it has")
	}
	if err := r.take(ctx); err != nil {
		j.leave(r.key)
		return nil, err
	}
	return r, nil
}

func isRunID(id string) bool {
	rest, ok := strings.CutPrefix(id, "run_")
	return ok && len(rest) == 16 && store.CheckKey(rest, false) == nil
}

func unknownRun(id string) error {
	return result.NewError(result.ArgsInvalid, fmt.Sprintf("there is no run %.40q to go on with: it made no calls, is too old, or is of another caller or profile; leave resume out", id))
}

// take reads the head and writes it once more, so that a process that still runs the program loses it.
func (r *journal) take(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, storeTime)
	defer cancel()
	doc, err := store.Change(ctx, r.of.o.Docs, r.key, func(d store.Doc) ([]byte, time.Duration, error) {
		if d.Rev == 0 {
			return nil, 0, unknownRun(r.id)
		}
		r.head = head{}
		if err := json.Unmarshal(d.Value, &r.head); err != nil || r.head.V != headVersion {
			return nil, 0, unknownRun(r.id)
		}
		r.head.Epoch++
		r.head.At = time.Now()
		value, err := json.Marshal(&r.head)
		return value, r.of.o.TTL, err
	})
	if err != nil {
		return unavailable(err)
	}
	r.rev = doc.Rev
	for i, c := range r.head.Calls {
		r.writes = r.writes || c.Writes
		if c.State != failed && c.State != waiting {
			r.before[c.Key] = append(r.before[c.Key], i)
		}
	}
	return nil
}

// unavailable is the error of a run whose journal cannot be read.
func unavailable(err error) error {
	if own := (*result.Error)(nil); errors.As(err, &own) {
		return err
	}
	return &result.Error{Code: result.UpstreamUnavailable, Cause: err, Message: "the journal of the run cannot be read or written (" + store.Remedy(err) + ")"}
}

// newest returns the id of the principal's last run with a journal.
func (j *Journals) newest(ctx context.Context, principal, profile string) (string, error) {
	heads, err := j.heads(ctx, ownerKey(principal, profile))
	if err != nil {
		return "", unavailable(err)
	}
	if len(heads) == 0 {
		return "", unknownRun(last)
	}
	return heads[len(heads)-1].id, nil
}

// keptHead is a head in the store.
type keptHead struct {
	id, key string
	rev     uint64
	head
}

// heads returns the heads of an owner, the newest last.
func (j *Journals) heads(ctx context.Context, owner string) (all []keptHead, err error) {
	ctx, cancel := context.WithTimeout(ctx, storeTime)
	defer cancel()
	prefix := headPrefix + owner + "."
	for doc, err := range j.o.Docs.List(ctx, prefix) {
		if err != nil {
			return nil, err
		}
		one := keptHead{id: strings.TrimPrefix(doc.Key, prefix), key: doc.Key, rev: doc.Rev}
		if json.Unmarshal(doc.Value, &one.head) == nil {
			all = append(all, one)
		}
	}
	slices.SortFunc(all, func(a, b keptHead) int { return cmp.Or(a.At.Compare(b.At), strings.Compare(a.id, b.id)) })
	return all, nil
}

// makeRoom removes the oldest journals of an owner, so that there is room for one more. Without it one
// principal could fill the store.
func (j *Journals) makeRoom(ctx context.Context, owner string) {
	heads, err := j.heads(ctx, owner)
	if err != nil {
		return // the write that follows reports the fault
	}
	for i := 0; i <= len(heads)-maxJournals; i++ {
		if err := j.o.Docs.Delete(ctx, heads[i].key, heads[i].rev); err != nil {
			continue // it is in use, or gone
		}
		for n := range heads[i].Calls {
			j.forget(ctx, heads[i].id, n)
		}
	}
}

// forget removes the result of a call.
func (j *Journals) forget(ctx context.Context, id string, n int) {
	key := valueKey(id, n)
	if doc, err := j.o.Docs.Get(ctx, key); err == nil && doc.Rev != 0 {
		_ = j.o.Docs.Delete(ctx, key, doc.Rev) // it ends by its TTL otherwise
	}
}

func (j *Journals) leave(key string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	delete(j.live, key)
}

func valueKey(id string, n int) string { return fmt.Sprintf("%s%s.%d", valuePrefix, id, n) }

// callKey returns the key of a call: the same for equal arguments, however they are written.
func callKey(tool string, args json.RawMessage) string {
	canonical, ok := rawjson.AppendCanonical(nil, args)
	if !ok {
		canonical = args
	}
	return store.Hash(tool + "\x00" + string(canonical))
}

// labelled is a result with the mark of its label; see package flow.
type labelled struct {
	value json.RawMessage
	mark  string
}

// A known is what a journal knows of a call before it is made.
type known struct {
	n        int // the number of the call that is now made, if value is nil
	labelled     // the result of an earlier run
}

// errUnsure says that a call of an earlier run may have run.
var errUnsure = errors.New("the outcome is unknown")

// open returns the result that an earlier run has of a call. Without one it starts a call, of which finish
// has to be called, and sending before it is sent.
func (r *journal) open(ctx context.Context, tool Tool, args json.RawMessage, again bool) (known, error) {
	key := callKey(tool.ID, args)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.lost != nil {
		return known{}, r.lost
	}
	if list := r.before[key]; len(list) > 0 {
		was, err := r.recall(ctx, list[0])
		safe := again || tool.ReadOnly || tool.Idempotent
		switch {
		case was.value != nil:
			r.before[key] = list[1:]
			return known{labelled: was}, nil
		case err != nil && !safe:
			return known{}, err
		}
		r.before[key] = list[1:]
	}
	n := len(r.head.Calls)
	r.head.Calls = append(r.head.Calls, madeCall{Key: key, State: waiting, Writes: !tool.ReadOnly, Again: tool.ReadOnly || tool.Idempotent})
	return known{n: n}, nil
}

// sending records that a call is about to be sent. A call that writes is in the store when it returns. A call
// that still waits for a person's approval is not: if the gateway ends meanwhile, a resumed run makes it.
func (r *journal) sending(ctx context.Context, n int) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.lost != nil {
		return r.lost
	}
	c := &r.head.Calls[n]
	if c.State = started; !c.Writes {
		return nil
	}
	r.writes = true
	return r.save(ctx)
}

// recall returns the result of a call of an earlier run, or errUnsure if the call may have run. For a call
// whose result was not kept, and which may be made again, it returns neither.
func (r *journal) recall(ctx context.Context, n int) (labelled, error) {
	if was := r.reads[n]; was.value != nil {
		return was, nil
	}
	ctx, cancel := context.WithTimeout(ctx, storeTime)
	defer cancel()
	doc, err := r.of.o.Docs.Get(ctx, valueKey(r.id, n))
	if err != nil {
		return labelled{}, unavailable(err)
	}
	var was labelled
	if mark, value, ok := bytes.Cut(doc.Value, markEnd); ok && len(mark) > 0 {
		was = labelled{value, string(mark[1:])}
		if mark[0] == 'h' {
			if was.value, err = r.of.o.Kept(ctx, r.principal, r.profile, string(value)); err != nil {
				was.value = nil // it has expired, or had to go
			}
		}
	}
	switch c := r.head.Calls[n]; {
	case was.value != nil:
		return was, nil
	case c.Again:
		return labelled{}, nil
	}
	return labelled{}, errUnsure
}

// markEnd ends the mark of a label in a document, which is JSON.
var markEnd = []byte{0}

// save writes the head.
func (r *journal) save(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTime)
	defer cancel()
	if r.rev == 0 {
		r.of.makeRoom(ctx, ownerKey(r.principal, r.profile))
	}
	r.head.At = time.Now()
	value, err := json.Marshal(&r.head)
	if err == nil {
		var rev uint64
		if rev, err = r.of.o.Docs.Set(ctx, r.key, value, r.rev, r.of.o.TTL); err == nil {
			r.rev = rev
			return nil
		}
	}
	if errors.Is(err, store.ErrConflict) {
		r.lost = result.NewError(result.ArgsInvalid, "the run "+r.id+" goes on elsewhere, because it was resumed")
	} else {
		r.lost = unavailable(err)
	}
	return r.lost
}

// finish records the outcome of a call. The result of a call that writes is in the store when it returns.
func (r *journal) finish(ctx context.Context, n int, state callState, got labelled) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := &r.head.Calls[n]
	c.State = state
	if state != done {
		return nil
	}
	if !c.Writes {
		if len(got.value) <= maxRead && r.size+len(got.value) <= maxReads {
			r.reads[n] = labelled{slices.Clone(got.value), got.mark}
			r.size += len(got.value)
		}
		return nil
	}
	if err := r.keep(ctx, n, got); err != nil {
		c.State = unsure
		return err
	}
	return nil
}

// keep writes a result to the store: v or h, the mark of its label, and the value or its handle.
func (r *journal) keep(ctx context.Context, n int, got labelled) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTime)
	defer cancel()
	form, value := "v", []byte(got.value)
	if len(value) > maxInline {
		handle, err := r.of.o.Keep(ctx, r.principal, r.profile, got.mark, value)
		if err != nil {
			return unavailable(err)
		}
		form, value = "h", []byte(handle)
	}
	_, err := r.of.o.Docs.Set(ctx, valueKey(r.id, n), slices.Concat([]byte(form+got.mark), markEnd, value), 0, r.of.o.TTL)
	if err != nil {
		return unavailable(err)
	}
	return nil
}

// end records the end of the run. kept reports whether the run can be resumed.
func (r *journal) end(ctx context.Context, ok bool) (kept bool) {
	defer r.of.leave(r.key)
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.head.Calls) == 0 || ok && !r.writes || r.lost != nil {
		return r.rev != 0 && r.lost == nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTime)
	defer cancel()
	if r.save(ctx) != nil {
		return false
	}
	if ok {
		return true
	}
	for n, value := range r.reads {
		if r.keep(ctx, n, value) != nil {
			break // the call is made again
		}
	}
	return true
}
