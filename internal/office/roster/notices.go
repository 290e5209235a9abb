package roster

import (
	"cmp"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/weir-mcp/weir/internal/store"
)

// An event for all members of an office is one message to all hubs of it. Its sender asks each of them later whether
// it has come, for all such events of the last second in one message, and sends the missing events once more.

const (
	noticeTime     = time.Minute // how long a hub that does not answer is asked
	maxNotices     = 4096        // that wait for the word of a hub
	maxNoticeBytes = 16 << 20
	maxSeen        = 4096 // numbers of one sender that are remembered; older ones have come
)

// notices are the events for all members that were sent, and the received events of other hubs.
type notices struct {
	mu     sync.Mutex // guards below
	last   uint64
	size   int
	kept   []*notice
	asking map[route]bool
	seen   map[string]*seen // by sender
}

// notice is an event that not all hubs have confirmed.
type notice struct {
	m    *Message
	size int
	sent time.Time
	to   []string // nodes
}

// seen is the numbers of a sender's events that have come, in the order of their coming.
type seen struct {
	numbers map[uint64]bool
	order   []uint64
	floor   uint64 // all up to it have come, or are forgotten
}

// Notify sends an event to the hubs of an office. nodes are the nodes that are known to have members: an event
// that one of them does not get is sent to it again for a minute.
func (s *Shared) Notify(m *Message, nodes []string) error {
	if m.Op, m.From = OpNotify, s.Inc(); m.From == "" {
		return errFenced
	}
	s.notices.keep(m, nodes)
	s.streams.rollLater()
	h, body := m.pack()
	return s.o.Bus.Tell(s.officeSubject(m.Office), h, body)
}

// keep numbers an event and keeps it until it is confirmed. m must not change then. Where there is no room, the oldest
// ones are let go.
func (n *notices) keep(m *Message, nodes []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.last++
	m.Seq = n.last
	one := &notice{m: m, sent: time.Now(), to: slices.DeleteFunc(slices.Clone(nodes), func(inc string) bool { return inc == m.From })}
	for _, a := range m.Args {
		one.size += len(a)
	}
	if len(one.to) > 0 {
		n.kept = append(n.kept, one)
		n.size += one.size
	}
	for len(n.kept) > maxNotices || n.size > maxNoticeBytes {
		n.size -= n.kept[0].size
		n.kept = n.kept[1:]
	}
}

// confirmNotices asks the hubs which events have not come. It reports whether any event waits for that.
func (s *Shared) confirmNotices() (more bool) {
	n := &s.notices
	n.mu.Lock()
	defer n.mu.Unlock()
	n.settle(func(one *notice, _ string) bool { return time.Since(one.sent) > noticeTime })
	due := map[route][]uint64{}
	for _, one := range n.kept {
		for _, inc := range one.to {
			if r := (route{one.m.From, inc}); time.Since(one.sent) >= rollAfter/2 && !n.asking[r] && len(due[r]) < maxRoll {
				due[r] = append(due[r], one.m.Seq)
			}
		}
	}
	for r, numbers := range due {
		if n.asking == nil {
			n.asking = map[route]bool{}
		}
		n.asking[r] = true
		body, _ := json.Marshal(numbers) // numbers
		h := store.Header{{headerV, "1"}, {headerOp, string(opSeen)}, {headerFrom, r.from}}
		s.o.Bus.Ask(s.lane(r.to, 0), h, body, rollTime, func(in store.Message, err error) {
			var missing []uint64
			if err == nil {
				err = json.Unmarshal(in.Body, &missing)
			}
			s.confirmed(r, numbers, missing, err)
		})
	}
	return len(n.kept) > 0
}

// settle takes nodes off the events for which over says so. The caller holds mu.
func (n *notices) settle(over func(one *notice, inc string) bool) {
	n.kept = slices.DeleteFunc(n.kept, func(one *notice) bool {
		one.to = slices.DeleteFunc(one.to, func(inc string) bool { return over(one, inc) })
		if len(one.to) == 0 {
			n.size -= one.size
		}
		return len(one.to) == 0
	})
}

// confirmed takes the answer of a hub: which of the asked events have not come.
func (s *Shared) confirmed(r route, asked, missing []uint64, err error) {
	n := &s.notices
	var again []*Message
	n.mu.Lock()
	delete(n.asking, r)
	if err == nil || errors.Is(err, store.ErrNobody) { // that node has ended, and so have its members
		n.settle(func(one *notice, inc string) bool {
			number := one.m.Seq
			if inc != r.to || one.m.From != r.from {
				return false
			}
			if _, known := slices.BinarySearch(asked, number); !known {
				return false
			}
			if slices.Contains(missing, number) {
				m := *one.m
				again = append(again, &m)
			}
			return true
		})
	}
	n.mu.Unlock()
	slices.SortFunc(again, func(a, b *Message) int { return cmp.Compare(a.Seq, b.Seq) })
	for _, m := range again {
		s.log.Warn("an event was lost between nodes and is sent again", "event", m.Event, "office", m.Office, "inc", r.to)
		s.repeat(r, m, time.Now())
	}
}

// repeat sends an event to one hub until it has come.
func (s *Shared) repeat(r route, m *Message, since time.Time) {
	m.Lost = func() {
		if time.Since(since) < noticeTime && s.Inc() == r.from {
			s.repeat(r, m, since)
		}
	}
	if err := s.Tell(r.to, m.Office, m); err != nil {
		s.Go(func() {
			if s.Pause(rollEvery) {
				m.Lost()
			}
		})
	}
}

// see notes that an event has come, and reports whether it is the first time. Events of older builds have no number.
func (n *notices) see(from string, number uint64) (first bool) {
	if number == 0 {
		return true
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	of := n.seen[from]
	if of == nil {
		if n.seen == nil || len(n.seen) >= maxDead {
			n.seen = map[string]*seen{}
		}
		of = &seen{numbers: map[uint64]bool{}}
		n.seen[from] = of
	}
	if number <= of.floor || of.numbers[number] {
		return false
	}
	of.numbers[number] = true
	of.order = append(of.order, number)
	if len(of.order) > maxSeen {
		delete(of.numbers, of.order[0])
		of.floor = max(of.floor, of.order[0])
		of.order = of.order[1:]
	}
	return true
}

// answer says which events of a sender have not come.
func (n *notices) answer(from string, in store.Message) {
	var numbers []uint64
	if in.Reply == nil || json.Unmarshal(in.Body, &numbers) != nil {
		return
	}
	n.mu.Lock()
	of := n.seen[from]
	missing := []uint64{}
	for _, number := range numbers {
		if of == nil || number > of.floor && !of.numbers[number] {
			missing = append(missing, number)
		}
	}
	n.mu.Unlock()
	body, _ := json.Marshal(missing) // numbers
	_ = in.Reply(nil, body)          // the sender asks again
}
