package roster

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/weir-mcp/weir/internal/store"
)

// line takes the messages of one subject. It keeps them in order while a body is fetched. Messages of other senders
// do not wait for it: the node that has the body may be gone.
type line struct {
	s   *Shared
	inc string // of this node
	k   int    // the lane

	mu      sync.Mutex                 // guards below
	waiting map[string][]store.Message // by the sender whose body is fetched
	count   int                        // of all that wait
	ears    map[string]*ear            // by sender
}

// maxEars is the number of senders from which on those that are gone are forgotten, when they have been silent for
// earTime. A sender that is not known may have just come.
const (
	maxEars = 64
	earTime = time.Minute
)

// take handles a message. Calls must not overlap.
func (l *line) take(in store.Message) {
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
		e := l.ear(from)
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
func (l *line) hold(from string, in store.Message) {
	if number := numberOf(in.Header); number != 0 && in.Reply == nil {
		l.ear(from).run(number)
	}
}

// handed notes that a message of hold was handed on, or that it is lost.
func (l *line) handed(from string, in store.Message) {
	if in.Reply != nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if e := l.ears[from]; e != nil {
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

// ear returns the receiver's side of a stream. The caller holds mu.
func (l *line) ear(from string) *ear {
	e := l.ears[from]
	if e == nil {
		if len(l.ears) >= maxEars {
			maps.DeleteFunc(l.ears, func(inc string, e *ear) bool { return time.Since(e.used) > earTime && l.s.o.Node.Gone(inc) })
		}
		e = &ear{}
		l.ears[from] = e
	}
	e.used = time.Now()
	return e
}

// tellGap asks a sender to take the roll now. Without that it does so within a second or two.
func (l *line) tellGap(from string) {
	h := store.Header{{headerV, "1"}, {headerOp, string(opMissed)}, {headerFrom, l.inc}, {headerNumber, strconv.Itoa(l.k)}}
	if err := l.s.o.Direct.Tell(l.s.lane(from, l.k), h, nil); err != nil {
		l.s.log.Debug("another hub was not told that messages are lost", "inc", from, "err", err)
	}
}

// roll asks for the fate of messages.
func (l *line) roll(from string, in store.Message) {
	var numbers []uint64
	if in.Reply == nil || json.Unmarshal(in.Body, &numbers) != nil {
		return
	}
	l.mu.Lock()
	e := l.ear(from)
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
func (l *line) lose(from string, in store.Message, problem string) {
	if in.Reply != nil {
		_ = l.s.reply(in.Reply, &Message{Problem: problem}) // a roll finds unanswered messages
		return
	}
	if number := numberOf(in.Header); number != 0 {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.ear(from).miss(span{number, number})
	}
}

// fetch hands on a message when its body is there, and then those that have waited for it.
func (l *line) fetch(from string, in store.Message) {
	l.s.expand(in, func(body []byte, err error) {
		if err != nil {
			l.s.log.Warn("a message of another hub is lost", "err", err)
			l.lose(from, in, ProblemOther)
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
func (l *line) next(from string) (in store.Message, more bool) {
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

// ear is the receiver's side of a stream.
type ear struct {
	used    time.Time // when a message or a roll last came
	last    uint64
	lost    []span
	running map[uint64]struct{} // questions without an answer, and messages that wait for a body
}

// span is the numbers of messages that were lost in a row.
type span struct{ first, last uint64 }

// hear takes the number of a message. It reports whether the message is to be handled, and whether others before it are
// lost.
func (e *ear) hear(number uint64, asks bool) (handle, gap bool) {
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

func (e *ear) run(number uint64) {
	if e.running == nil {
		e.running = map[uint64]struct{}{}
	}
	e.running[number] = struct{}{}
}

// reach notes that messages up to a number were sent. It reports whether one of them is lost.
func (e *ear) reach(number uint64) bool {
	if number <= e.last {
		return false
	}
	e.miss(span{e.last + 1, number})
	e.last = number
	return true
}

func (e *ear) miss(s span) {
	if len(e.lost) >= maxSpans {
		e.lost = e.lost[1:]
	}
	e.lost = append(e.lost, s)
}

// answer reports the fate of messages.
func (e *ear) answer(numbers []uint64) (out rolled) {
	for _, number := range numbers {
		if slices.ContainsFunc(e.lost, func(s span) bool { return s.first <= number && number <= s.last }) {
			out.Lost = append(out.Lost, number)
		} else if _, runs := e.running[number]; !runs {
			out.Over = append(out.Over, number)
		}
	}
	return out
}
