package roster

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-mcp/weir/internal/store"
)

// A bus loses messages: where a server of it is killed, messages on their way are gone, and neither side
// hears of it. So the messages from one hub to another on one lane are a stream, which is numbered from 1:
//
//	sender                                   receiver
//	  3 ──────────────────────────────────────▶ 3: call 3 runs
//	  4 ─────────✗
//	  5 ──────────────────────────────────────▶ 5: 4 is lost, and is refused if it comes later
//	     ◀──────────────────────────────── missed
//	  roll, to 5: what became of 3 and 4? ─────▶
//	     ◀──────────────────── 4 is lost, 3 runs
//
// The sender takes the roll of the messages of which it has heard nothing for rollAfter, so a message that
// was the last one is found missing as well. A call that the receiver has, and that does not run there any
// more, was answered, and the answer is lost. A message that is lost was not handled, and never will be.

const (
	rollEvery = time.Second
	rollAfter = time.Second
	rollTime  = 2 * time.Second // for the answer
	// answerTime is how long an answer may take past the one to a roll.
	answerTime = 500 * time.Millisecond
	// maxRoll bounds the numbers of one roll. maxSent bounds the messages of a stream without an answer
	// that are looked after: the end of others in a row is not noticed.
	maxRoll = 4096
	maxSent = 4096
	// maxSpans bounds the lost messages of a stream that the receiver remembers.
	maxSpans = 256
)

// Errors of Ask for messages that were lost between nodes.
var (
	ErrLost     = errors.New("the message to the other hub was lost")     // it was not handled
	ErrNoAnswer = errors.New("the answer of the other hub does not come") // it may have been handled
)

// route is the way from an incarnation of this node to an incarnation of another.
type route struct{ from, to string }

// streams are the messages from this node to all others. They are a type of their own because the hub has no part in them.
type streams struct {
	s     *Shared
	asked chan struct{} // asks for rolls

	mu       sync.RWMutex // guards below
	outboxes map[route]*outbox
}

func newStreams(s *Shared) *streams {
	return &streams{s: s, asked: make(chan struct{}, 1), outboxes: map[route]*outbox{}}
}

// outbox is the streams to one hub, by lane.
type outbox [lanes]stream

// stream is the sender's side.
type stream struct {
	subject string

	mu      sync.Mutex // guards below; held while a message gets its place in line, so that numbers arrive in order
	last    uint64
	pending map[uint64]*pending
	sent    int  // of pending, those that wait for no answer
	rolling bool // a roll is under way
}

// pending is a message of which nothing has been heard.
type pending struct {
	sent  time.Time
	asks  bool // it waits for an answer
	ended atomic.Bool
	owner interface{ lose(error) } // called once, unless the answer was first
}

// end reports whether the caller is the first to know the fate of the message.
func (p *pending) end() bool { return p.ended.CompareAndSwap(false, true) }

// stream returns the stream of a message.
func (x *streams) stream(from, to string, lane int) *stream {
	r := route{from, to}
	x.mu.RLock()
	box := x.outboxes[r]
	x.mu.RUnlock()
	if box == nil {
		x.mu.Lock()
		if box = x.outboxes[r]; box == nil {
			box = &outbox{}
			for k := range box {
				box[k].subject = x.s.lane(to, k)
			}
			x.outboxes[r] = box
		}
		x.mu.Unlock()
	}
	return &box[lane]
}

// forget forgets the streams from or to an incarnation that is over. Pending messages end by other
// means.
func (x *streams) forget(inc string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	maps.DeleteFunc(x.outboxes, func(r route, _ *outbox) bool { return r.from == inc || r.to == inc })
}

// send numbers a message, lets queue put it in line, and sends it. Rolls look after p, unless that is nil.
//
// The number is given with the lock of the stream. A write with it would make all callers of the lane wait for the
// system, one after the other, and an answer, which takes the lock as well, for the goroutine that has asked.
func (x *streams) send(st *stream, h store.Header, p *pending, queue func(h store.Header, number uint64) (send func())) {
	send := x.number(st, h, p, queue)
	send()
}

func (x *streams) number(st *stream, h store.Header, p *pending, queue func(h store.Header, number uint64) (send func())) (send func()) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.last++
	number := st.last
	h = append(h, [2]string{headerNumber, strconv.FormatUint(number, 10)})
	if p != nil && (p.asks || st.sent < maxSent) {
		if st.pending == nil {
			st.pending = map[uint64]*pending{}
		}
		st.pending[number] = p
		if !p.asks {
			st.sent++
		}
		x.rollLater()
	}
	return queue(h, number)
}

// queueOf returns the Queue of a Bus. One without it sends at once.
func queueOf(b store.Bus) func(subject string, h store.Header, body []byte, timeout time.Duration, f func(store.Message, error)) (send func(), err error) {
	if q, ok := b.(interface {
		Queue(subject string, h store.Header, body []byte, timeout time.Duration, f func(store.Message, error)) (send func(), err error)
	}); ok {
		return q.Queue
	}
	none := func() {}
	return func(subject string, h store.Header, body []byte, timeout time.Duration, f func(store.Message, error)) (send func(), err error) {
		if f == nil {
			return none, b.Tell(subject, h, body)
		}
		b.Ask(subject, h, body, timeout, f)
		return none, nil
	}
}

// rollLater lets rolls be taken while anything is pending.
func (x *streams) rollLater() {
	select {
	case x.asked <- struct{}{}:
	default: // they are
	}
}

func (st *stream) remove(number uint64) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.drop(number)
}

// drop is remove for a caller that holds mu.
func (st *stream) drop(number uint64) *pending {
	p := st.pending[number]
	if p != nil {
		delete(st.pending, number)
		if !p.asks {
			st.sent--
		}
	}
	return p
}

// takeRolls asks for the fate of messages while there are any.
func (x *streams) takeRolls() {
	for {
		select {
		case <-x.asked:
		case <-x.s.ctx.Done():
			return
		}
		for x.s.Pause(rollEvery) && x.rollAll() {
		}
	}
}

// rollAll takes the rolls that are due. It reports whether any message or notice is pending.
func (x *streams) rollAll() (more bool) {
	x.mu.RLock()
	boxes := maps.Clone(x.outboxes)
	x.mu.RUnlock()
	for r, box := range boxes {
		for k := range box {
			more = x.roll(r, k, &box[k], rollAfter) || more
		}
	}
	return x.s.confirmNotices() || more
}

// roll asks for the fate of the messages of a stream that were sent some time ago. It reports whether there
// are pending messages, later ones as well.
func (x *streams) roll(r route, lane int, st *stream, after time.Duration) (more bool) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.rolling || len(st.pending) == 0 {
		return len(st.pending) > 0
	}
	var numbers []uint64
	for number, p := range st.pending {
		if time.Since(p.sent) >= after {
			numbers = append(numbers, number)
		}
	}
	if len(numbers) == 0 {
		return true
	}
	slices.Sort(numbers)
	numbers = numbers[:min(len(numbers), maxRoll)]
	body, _ := json.Marshal(numbers) // numbers
	st.rolling = true
	h := store.Header{{headerV, "1"}, {headerOp, string(opRoll)}, {headerFrom, r.from}, {headerNumber, strconv.FormatUint(st.last, 10)}}
	// On the way of the messages: a roll must not overtake them.
	x.s.o.Direct.Ask(st.subject, h, body, rollTime, func(in store.Message, err error) {
		var answer rollAnswer
		if err == nil {
			err = json.Unmarshal(in.Body, &answer)
		}
		st.mu.Lock()
		st.rolling = false
		st.mu.Unlock()
		if err == nil { // else it is asked again
			x.rolled(st, &answer)
		}
	})
	return true
}

// rollAnswer is the answer to a roll. A message that it does not name has arrived, and is not over: a question waits
// for its answer there, another message for a body.
type rollAnswer struct {
	Lost []uint64 `json:"lost,omitempty"`
	Over []uint64 `json:"over,omitempty"` // has arrived, and does not run
}

// rolled takes the answer to a roll.
func (x *streams) rolled(st *stream, answer *rollAnswer) {
	var lost, unanswered []*pending
	st.mu.Lock()
	for _, number := range answer.Lost {
		if p := st.drop(number); p != nil {
			lost = append(lost, p)
		}
	}
	for _, number := range answer.Over {
		switch p := st.pending[number]; {
		case p == nil:
		case p.asks:
			unanswered = append(unanswered, p)
		default:
			st.drop(number)
		}
	}
	st.mu.Unlock()
	for _, p := range lost {
		if p.end() {
			p.owner.lose(ErrLost)
		}
	}
	if len(unanswered) == 0 {
		return
	}
	x.s.Go(func() {
		x.s.Pause(answerTime)
		for _, p := range unanswered {
			if p.end() {
				p.owner.lose(ErrNoAnswer)
			}
		}
		st.mu.Lock()
		defer st.mu.Unlock()
		for _, number := range answer.Over {
			if p := st.pending[number]; p != nil && p.ended.Load() {
				st.drop(number)
			}
		}
	})
}

// missed takes the word of a receiver that a stream has a gap.
func (x *streams) missed(h store.Header) {
	r := route{x.s.Inc(), h.Get(headerFrom)}
	lane, err := strconv.Atoi(h.Get(headerNumber))
	x.mu.RLock()
	box := x.outboxes[r]
	x.mu.RUnlock()
	if err == nil && lane >= 0 && lane < lanes && box != nil {
		x.roll(r, lane, &box[lane], 0)
	}
}
