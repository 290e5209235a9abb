package approval

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"
)

// maxWaiting bounds the calls that wait at the same time.
const maxWaiting = 100

// maxOwn bounds the waiting calls of one principal, so that it cannot keep the calls of others from
// operators.
const maxOwn = 10

// Errors of Ask.
var (
	ErrNoOperator = errors.New("no operator can be asked")
	ErrFull       = errors.New("too many calls wait for an operator")
	ErrTooLate    = errors.New("no operator decided in time")
)

// ErrUnknown is the error of Decide for a call that does not wait (any more).
var ErrUnknown = errors.New("no call with this id waits")

// A Question is the call that an operator decides about. Its texts are safe to show.
type Question struct {
	Server    string `json:"server,omitempty"`
	Tool      string `json:"tool"`
	Principal string `json:"principal"`
	Client    string `json:"client,omitempty"` // the client's name for itself
	// Message describes the call, in several lines.
	Message string `json:"message"`
	// Partly means that Message does not show everything. The operator must say that they know.
	Partly bool `json:"partly,omitempty"`
	// Calls is how many calls of the tool the operator may allow at once, for a program that makes several; 0 or
	// 1 is this one only.
	Calls int `json:"calls,omitempty"`
}

// A Call is a call that waits.
type Call struct {
	ID string `json:"id"`
	Question
	Since time.Time `json:"since"`
	Until time.Time `json:"until"`
	// Node is the gateway of a cluster at which the call waits, "" for the gateway that answers. NodeInc is
	// its incarnation, which clients do not need.
	Node    string `json:"node,omitempty"`
	NodeInc string `json:"-"`
}

// An Answer is an operator's decision.
type Answer struct {
	Approved bool
	Reason   string // for the agent; may be empty
	Calls    int    // of Question.Calls; 0 is 1
}

// Options are the settings of a Room.
type Options struct {
	// Open reports whether an operator can decide. It is called concurrently. Nil means never.
	Open func() bool
	// Logger logs waiting calls; nil discards that.
	Logger *slog.Logger
}

// A Room is where calls wait. It is safe for concurrent use.
type Room struct {
	open func() bool
	log  *slog.Logger

	mu      sync.Mutex // guards below
	waiting map[string]*visitor
}

type visitor struct {
	call   Call
	answer chan Answer // capacity 1
}

// New returns an empty Room.
func New(o Options) *Room {
	if o.Open == nil {
		o.Open = func() bool { return false }
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Room{open: o.Open, log: o.Logger, waiting: map[string]*visitor{}}
}

// progressGap is the time between two calls of Ask's tell.
const progressGap = 10 * time.Second

// Ask waits for the decision of an operator, at most for a time. It withdraws the question when ctx
// ends and returns the error of ctx. tell is called at once and then every 10 seconds from this
// goroutine, with the id and the time since the start; nil is not called.
func (r *Room) Ask(ctx context.Context, q Question, wait time.Duration, tell func(id string, waited time.Duration)) (Answer, error) {
	if !r.open() {
		return Answer{}, ErrNoOperator
	}
	began := time.Now()
	v, err := r.enter(Call{Question: q, Since: began.UTC(), Until: began.Add(wait).UTC()})
	if err != nil {
		return Answer{}, err
	}
	id := v.call.ID
	r.log.Warn("a call waits for a yes: weir approve "+id, "upstream", q.Server, "tool", q.Tool, "principal", q.Principal, "for", wait)
	limit, again := time.NewTimer(wait), time.NewTicker(progressGap)
	defer limit.Stop()
	defer again.Stop()
	for {
		if tell != nil {
			tell(id, time.Since(began))
		}
		select {
		case a := <-v.answer:
			return a, nil
		case <-again.C:
			continue
		case <-limit.C:
			err = ErrTooLate
		case <-ctx.Done():
			err = ctx.Err()
		}
		if !r.withdraw(id) { // a decision was faster
			return <-v.answer, nil
		}
		r.log.Info("a call waits no longer for a yes", "id", id, "upstream", q.Server, "err", err)
		return Answer{}, err
	}
}

// enter adds a call with an id of its own.
func (r *Room) enter(c Call) (*visitor, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.waiting) >= maxWaiting || c.Principal != "" && r.own(c.Principal) >= maxOwn {
		return nil, ErrFull
	}
	// Random, so that an id that an operator has in mind never means the call of a later gateway.
	for c.ID == "" || r.waiting[c.ID] != nil {
		c.ID = strings.ToLower(rand.Text()[:6])
	}
	v := &visitor{call: c, answer: make(chan Answer, 1)}
	r.waiting[c.ID] = v
	return v, nil
}

// own counts the calls of a principal. It is called with mu held.
func (r *Room) own(principal string) (n int) {
	for _, v := range r.waiting {
		if v.call.Principal == principal {
			n++
		}
	}
	return n
}

// withdraw removes a call and reports whether it was there.
func (r *Room) withdraw(id string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, there := r.waiting[id]
	delete(r.waiting, id)
	return there
}

// List returns the calls that wait, the oldest first.
func (r *Room) List() []Call {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make([]Call, 0, len(r.waiting))
	for _, v := range r.waiting {
		all = append(all, v.call)
	}
	slices.SortFunc(all, func(a, b Call) int { return cmp.Or(a.Since.Compare(b.Since), strings.Compare(a.ID, b.ID)) })
	return all
}

// Decide ends the wait of a call and returns the call. check may refuse the decision with an error:
// the call waits on then. The error is ErrUnknown if the call does not wait.
func (r *Room) Decide(id string, a Answer, check func(Call) error) (Call, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	v := r.waiting[id]
	if v == nil {
		return Call{}, ErrUnknown
	}
	if err := check(v.call); err != nil {
		return v.call, err
	}
	delete(r.waiting, id)
	v.answer <- a
	return v.call, nil
}
