package roster

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/weir-mcp/weir/internal/store"
)

// inbox takes the messages of one subject. It keeps them in order while a body is fetched. Messages of other senders
// do not wait for it: the node that has the body may be gone.
type inbox struct {
	s   *Shared
	inc string // of this node
	k   int    // the lane

	mu        sync.Mutex                 // guards below
	waiting   map[string][]store.Message // by the sender whose body is fetched
	count     int                        // of all that wait
	receivers map[string]*receiver       // by sender
}

// maxReceivers is the number of senders from which on those that are gone are forgotten, when they have been silent for
// receiverTime. A sender that is not known may have just come.
const (
	maxReceivers = 64
	receiverTime = time.Minute
)

// take handles a message. Calls must not overlap.
func (l *inbox) take(in store.Message) {
	from := in.Header.Get(headerFrom)
	switch Op(in.Header.Get(headerOp)) {
	case opRoll:
		l.roll(from, in)
		return
	case opMissed:
		l.s.streams.missed(in.Header)
		return
	case opSeen:
		l.s.notices.answer(from, in)
		return
	}
	number := numberOf(in.Header)
	l.mu.Lock()
	if number != 0 { // else the sender is of an older build
		e := l.receiver(from)
		handle, gap := e.hear(number, in.Reply != nil)
		if gap {
			l.tellGap(from)
		}
		if !handle {
			l.mu.Unlock()
			return
		}
		if reply := in.Reply; reply != nil {
			in.Reply = func(h store.Header, body []byte) error {
				err := reply(h, body)
				l.mu.Lock()
				defer l.mu.Unlock()
				delete(e.running, number) // not earlier: a roll would find the answer lost before it was sent
				return err
			}
		}
	}
	if _, busy := l.waiting[from]; busy {
		room := l.count < maxLine
		if room {
			l.waiting[from] = append(l.waiting[from], in)
			l.count++
			l.hold(from, in)
		}
		l.mu.Unlock()
		if !room {
			l.lose(from, in, ProblemBusy)
		}
		return
	}
	_, large := in.Header.Lookup(headerBody)
	if large {
		if l.waiting == nil {
			l.waiting = map[string][]store.Message{}
		}
		l.waiting[from] = nil
		l.hold(from, in)
	}
	l.mu.Unlock()
	if !large {
		l.s.received(in, in.Body)
		return
	}
	l.fetch(from, in)
}

// hold notes that a message without an answer waits. A roll would find it handled otherwise, and nothing would look
// after it. The caller holds mu.
func (l *inbox) hold(from string, in store.Message) {
	if number := numberOf(in.Header); number != 0 && in.Reply == nil {
		l.receiver(from).run(number)
	}
}

// handed notes that a message of hold was handed on, or that it is lost.
func (l *inbox) handed(from string, in store.Message) {
	if in.Reply != nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if e := l.receivers[from]; e != nil {
		delete(e.running, numberOf(in.Header))
	}
}

func numberOf(h store.Header) uint64 {
	number, err := strconv.ParseUint(h.Get(headerNumber), 10, 64)
	if err != nil {
		return 0
	}
	return number
}

// receiver returns the receiver of a sender's stream. The caller holds mu.
func (l *inbox) receiver(from string) *receiver {
	e := l.receivers[from]
	if e == nil {
		if len(l.receivers) >= maxReceivers {
			maps.DeleteFunc(l.receivers, func(inc string, e *receiver) bool { return time.Since(e.used) > receiverTime && l.s.o.Node.Gone(inc) })
		}
		e = &receiver{}
		l.receivers[from] = e
	}
	e.used = time.Now()
	return e
}

// tellGap asks a sender to take the roll now. Without that it does so within a second or two.
func (l *inbox) tellGap(from string) {
	h := store.Header{{headerV, "1"}, {headerOp, string(opMissed)}, {headerFrom, l.inc}, {headerNumber, strconv.Itoa(l.k)}}
	if err := l.s.o.Direct.Tell(l.s.lane(from, l.k), h, nil); err != nil {
		l.s.log.Debug("a notice of lost messages did not reach another hub", "inc", from, "err", err)
	}
}

// roll asks for the fate of messages.
func (l *inbox) roll(from string, in store.Message) {
	var numbers []uint64
	if in.Reply == nil || json.Unmarshal(in.Body, &numbers) != nil {
		return
	}
	l.mu.Lock()
	e := l.receiver(from)
	e.reach(numberOf(in.Header))
	answer := e.answer(numbers)
	l.mu.Unlock()
	if len(answer.Lost) > 0 {
		l.s.log.Warn("messages of another hub were lost between the nodes", "inc", from, "count", len(answer.Lost))
	}
	body, _ := json.Marshal(answer) // numbers
	_ = in.Reply(store.Header{{headerV, "1"}, {headerFrom, l.inc}}, body)
}

// lose drops a message that has come and cannot be handled.
func (l *inbox) lose(from string, in store.Message, problem string) {
	if in.Reply != nil {
		_ = l.s.reply(in.Reply, &Message{Problem: problem}) // a roll finds unanswered messages
		return
	}
	if number := numberOf(in.Header); number != 0 {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.receiver(from).miss(span{number, number})
	}
}

// fetch hands on a message when its body is there, and then those that have waited for it.
func (l *inbox) fetch(from string, in store.Message) {
	l.s.expand(in, func(body []byte, err error) {
		if err != nil {
			l.s.log.Warn("a message of another hub is lost", "err", err)
			problem := ProblemOther
			if errors.Is(err, ErrNoRoom) {
				problem = ProblemNoRoom
			}
			l.lose(from, in, problem)
		} else {
			l.s.received(in, body)
		}
		l.handed(from, in)
		for {
			next, more := l.next(from)
			if !more {
				return
			}
			if _, large := next.Header.Lookup(headerBody); large {
				l.fetch(from, next)
				return
			}
			l.s.received(next, next.Body)
			l.handed(from, next)
		}
	})
}

// next returns the message of a sender that has waited longest. If there is none, the sender's next message
// does not wait.
func (l *inbox) next(from string) (in store.Message, more bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	waiting := l.waiting[from]
	if len(waiting) == 0 {
		delete(l.waiting, from)
		return in, false
	}
	l.waiting[from] = waiting[1:]
	l.count--
	return waiting[0], true
}

// receiver tracks the sequence numbers of one incoming message stream.
type receiver struct {
	used    time.Time // when a message or a roll last came
	last    uint64
	lost    []span
	running map[uint64]struct{} // questions without an answer, and messages that wait for a body
}

// span is the numbers of messages that were lost in a row.
type span struct{ first, last uint64 }

// hear takes the number of a message. It reports whether the message is to be handled, and whether others before it are
// lost.
func (e *receiver) hear(number uint64, asks bool) (handle, gap bool) {
	if number <= e.last {
		return false, false // it comes twice, or after it was found lost
	}
	gap = e.reach(number - 1)
	e.last = number
	if asks {
		e.run(number)
	}
	return true, gap
}

func (e *receiver) run(number uint64) {
	if e.running == nil {
		e.running = map[uint64]struct{}{}
	}
	e.running[number] = struct{}{}
}

// reach notes that messages up to a number were sent. It reports whether one of them is lost.
func (e *receiver) reach(number uint64) bool {
	if number <= e.last {
		return false
	}
	e.miss(span{e.last + 1, number})
	e.last = number
	return true
}

func (e *receiver) miss(s span) {
	if len(e.lost) >= maxSpans {
		e.lost = e.lost[1:]
	}
	e.lost = append(e.lost, s)
}

// answer reports the fate of messages.
func (e *receiver) answer(numbers []uint64) (out rollAnswer) {
	for _, number := range numbers {
		if slices.ContainsFunc(e.lost, func(s span) bool { return s.first <= number && number <= s.last }) {
			out.Lost = append(out.Lost, number)
		} else if _, runs := e.running[number]; !runs {
			out.Over = append(out.Over, number)
		}
	}
	return out
}
