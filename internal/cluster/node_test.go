package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-mcp/weir/internal/lease"
	"github.com/weir-mcp/weir/internal/store"
	"github.com/weir-mcp/weir/internal/testkit/storetest"
)

// world is a cluster in one bubble of time: a store, a bus and the addresses that answer.
type world struct {
	t    *testing.T
	docs *store.Memory
	bus  *store.MemoryBus

	mu  sync.Mutex // guards below
	off map[string]bool
}

func newWorld(t *testing.T) *world {
	return &world{t: t, docs: store.NewMemory(store.MemoryOptions{}), bus: store.NewMemoryBus(), off: map[string]bool{}}
}

// cut makes an address refuse connections, or accept them again.
func (w *world) cut(address string, off bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.off[address] = off
}

func (w *world) dial(_ context.Context, _, address string) (net.Conn, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.off[address] {
		return nil, errors.New("refused")
	}
	near, far := net.Pipe()
	_ = far.Close()
	return near, nil
}

// deafBus loses the messages to and from a node that was killed.
type deafBus struct {
	store.Bus
	mu    sync.Mutex // guards below
	off   bool
	deaf  bool   // Listen fails
	ended string // a subject without a listener; "" for none
}

// end takes the listener of a subject away, for the questions of this node.
func (b *deafBus) end(subject string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ended = subject
}

func (b *deafBus) isEnded(subject string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.ended == subject
}

func (b *deafBus) cut() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.off = true
}

func (b *deafBus) isOff() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.off
}

func (b *deafBus) Ask(subject string, h store.Header, body []byte, timeout time.Duration, f func(store.Message, error)) {
	if b.isOff() {
		go f(store.Message{}, store.ErrUnavailable)
		return
	}
	if b.isEnded(subject) {
		go f(store.Message{}, store.ErrNobody)
		return
	}
	b.Bus.Ask(subject, h, body, timeout, f)
}

// refuse makes Listen fail, or work again.
func (b *deafBus) refuse(deaf bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.deaf = deaf
}

func (b *deafBus) Listen(subject string, f func(store.Message)) (func(), error) {
	b.mu.Lock()
	deaf := b.deaf
	b.mu.Unlock()
	if deaf {
		return nil, store.ErrUnavailable
	}
	return b.Bus.Listen(subject, func(m store.Message) {
		if !b.isOff() {
			f(m)
		}
	})
}

// member is a node of a test, and what it can be cut off from.
type member struct {
	*Node
	docs *storetest.Faults
	bus  *deafBus
	host string

	mu     sync.Mutex // guards below
	fenced []string
	next   func() storetest.Fault // nil: none
}

func (m *member) fault() storetest.Fault {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.next == nil {
		return storetest.None
	}
	return m.next()
}

func (m *member) faults(next func() storetest.Fault) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.next = next
}

func (w *world) join(name string) *member {
	w.t.Helper()
	m := &member{bus: &deafBus{Bus: w.bus}, host: name + ":8090"}
	m.docs = &storetest.Faults{Docs: w.docs, Next: m.fault}
	var err error
	m.Node, err = Start(w.t.Context(), Options{
		Docs: m.docs, Bus: m.bus, Name: name, URL: "https://" + m.host, Dial: w.dial,
		Fenced: func(inc string) {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.fenced = append(m.fenced, inc)
		},
	})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { m.Close(context.Background()) })
	return m
}

// kill makes a node silent as a killed process is: its store, its bus and its address.
func (w *world) kill(m *member) {
	m.docs.Cut(true)
	m.bus.cut()
	w.cut(m.host, true)
}

func names(n *Node) string { return fmt.Sprint(len(n.Peers())) }

// TestJoinAndLeave: nodes see each other at once, with what they say of themselves, and one that is closed
// is gone at once.
func TestJoinAndLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a, b := w.join("a"), w.join("b")
		synctest.Wait()
		peers := a.Peers()
		if len(peers) != 2 || peers[0].Name != "a" || peers[1].Inc != b.Inc() || peers[1].URL != "https://b:8090" || peers[1].State != stateUp || !validInc(b.Inc()) {
			t.Errorf("%+v", peers)
		}
		time.Sleep(time.Minute) // renewals keep them
		if a.Gone(b.Inc()) || b.Gone(a.Inc()) || !a.Ready() {
			t.Error("a node is gone although it renews")
		}
		b.Drain()
		synctest.Wait()
		if p := a.Peers()[1]; p.State != stateDraining || b.Ready() {
			t.Errorf("%+v", p)
		}
		old := b.Inc()
		b.Close(t.Context())
		synctest.Wait()
		if !a.Gone(old) || names(a.Node) != "1" {
			t.Error("a node that was closed is not gone")
		}
		a.Close(t.Context())
	})
}

// TestOnDrain: a drain is told of once, as soon as another node takes work, so that streams have a place to go. A late
// subscriber is told, too.
func TestOnDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a, b := w.join("a"), w.join("b")
		synctest.Wait()
		var told [2]int
		OnDrain(a.Node, func() { told[0]++ })
		OnDrain(b.Node, func() { told[1]++ })
		b.Drain()
		b.Drain()
		synctest.Wait()
		if told != [2]int{0, 1} {
			t.Errorf("after the drain of one: %v", told)
		}
		a.Drain()
		synctest.Wait()
		if told != [2]int{0, 1} {
			t.Errorf("a node without another one: %v", told)
		}
		late, ended := 0, 0
		OnDrain(b.Node, func() { late++ })
		end := OnDrain(a.Node, func() { ended++ })
		time.Sleep(10 * time.Second)
		end()
		c := w.join("c")
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if told != [2]int{1, 1} || late != 1 || ended != 0 {
			t.Errorf("a node has come: told %v, late %d, after its end %d", told, late, ended)
		}
		c.Close(t.Context())
		b.Close(t.Context())
		a.Close(t.Context())
	})
}

// lateDocs does not answer Follow for the first few times, as a store that elects its leader.
type lateDocs struct {
	store.Docs
	left int
}

func (d *lateDocs) Follow(what string, f func(store.Doc)) (func(), error) {
	if d.left--; d.left >= 0 {
		time.Sleep(2 * time.Second)
		return nil, store.ErrUnavailable
	}
	return d.Docs.Follow(what, f)
}

// TestStartWaits: a node that starts while the store elects a leader waits for it as long as it may.
func TestStartWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		n, err := Start(ctx, Options{Docs: &lateDocs{w.docs, 3}, Bus: w.bus, Name: "a"})
		if err != nil {
			t.Fatal(err)
		}
		n.Close(t.Context())
		if n, err = Start(ctx, Options{Docs: &lateDocs{w.docs, 1000}, Bus: w.bus, Name: "b"}); !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("%v, %v", n, err)
		}
	})
}

// TestFenceWithoutBus: a node that the store has not acknowledged in time loses what it owns, and claims nothing, also
// while it cannot begin another incarnation because the bus is away.
func TestFenceWithoutBus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a := w.join("a")
		c, err := a.Claim(t.Context(), "u.x", true)
		if err != nil {
			t.Fatal(err)
		}
		inc := a.Inc()
		a.docs.Cut(true)
		a.bus.refuse(true)
		cut := time.Now()
		<-c.Lost()
		if after := time.Since(cut); after > lease.FenceAfter {
			t.Errorf("the claim was lost after %v", after)
		}
		if a.Ready() {
			t.Error("a node that is over gets new work")
		}
		a.docs.Cut(false)
		if c, err := a.Claim(t.Context(), "u.x", true); err == nil {
			t.Errorf("claimed %v by an incarnation that is over", c)
		}
		a.bus.refuse(false)
		time.Sleep(nodeTTL + renewEvery)
		if _, err = a.Claim(t.Context(), "u.x", true); err != nil || a.Inc() == inc {
			t.Errorf("%v, inc %s", err, a.Inc())
		}
	})
}

// TestFence: a node that the store does not acknowledge is over 15 seconds after it sent the last renewal that
// was acknowledged, before its document can end. It goes on as another node, which is its heir.
func TestFence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a, b := w.join("a"), w.join("b")
		c, err := a.Claim(t.Context(), "u.x", false)
		if err != nil {
			t.Fatal(err)
		}
		inc, fenced := a.Inc(), a.Fenced()
		time.Sleep(10 * time.Second)
		a.docs.Cut(true)
		sent := time.Now() // the last renewal was before
		<-fenced
		if after := time.Since(sent); after > lease.FenceAfter || after < lease.FenceAfter-renewEvery-time.Second {
			t.Errorf("fenced after %v", after)
		}
		select {
		case <-c.Lost():
		case <-time.After(time.Second):
			t.Error("a claim outlives its incarnation")
		}
		synctest.Wait()
		if b.Gone(inc) {
			t.Error("the document has ended before the fence")
		}
		if a.Ready() || a.Inc() == inc || len(a.fenced) != 1 || a.fenced[0] != inc {
			t.Errorf("ready %v, inc %s, was %s, told %q", a.Ready(), a.Inc(), inc, a.fenced)
		}
		time.Sleep(10 * time.Second)
		if !b.Gone(inc) || names(b.Node) != "1" {
			t.Errorf("%+v", b.Peers())
		}
		a.docs.Cut(false)
		time.Sleep(2 * time.Second)
		if !a.Ready() || b.Gone(a.Inc()) {
			t.Error("the node is not back")
		}
		if heir := b.Heir(t.Context(), inc); heir != a.Inc() {
			t.Errorf("the heir is %q, want %q", heir, a.Inc())
		}
		if c, err := b.Claim(t.Context(), "u.x", false); err != nil {
			t.Error(err)
		} else if err := c.Release(t.Context()); err != nil {
			t.Error(err)
		}
		a.Close(t.Context())
		b.Close(t.Context())
	})
}

// TestRenewalFaults: writes that were made although they failed, false conflicts and short absences of the
// store end no incarnation.
func TestRenewalFaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a := w.join("a")
		inc := a.Inc()
		dice := rand.New(rand.NewPCG(1, 2))
		a.faults(func() storetest.Fault {
			return []storetest.Fault{storetest.None, storetest.None, storetest.ApplyThenFail, storetest.ConflictFalsely, storetest.Drop}[dice.IntN(5)]
		})
		time.Sleep(5 * time.Minute)
		a.faults(nil)
		for range 10 {
			a.docs.Cut(true)
			time.Sleep(9 * time.Second) // an election
			a.docs.Cut(false)
			time.Sleep(5 * time.Second)
		}
		if a.Inc() != inc || !a.Ready() {
			t.Error("the node was fenced")
		}
		a.Close(t.Context())
	})
}

// TestSuspect: a killed node is gone within seconds, for all nodes. A node that answers one of pings, dial
// and third node stays.
func TestSuspect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a, b, c := w.join("a"), w.join("b"), w.join("c")
		synctest.Wait()
		if a.Suspect(t.Context(), b.Inc()) {
			t.Error("a node that answers is dead")
		}
		b.bus.cut()
		if a.Suspect(t.Context(), b.Inc()) {
			t.Error("a node that can be dialled is dead")
		}
		w.kill(b)
		began := time.Now()
		var both sync.WaitGroup
		for range 2 {
			both.Go(func() {
				if !a.Suspect(t.Context(), b.Inc()) {
					t.Error("a killed node is not dead")
				}
			})
		}
		both.Wait()
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("the verdict took %v", took)
		}
		synctest.Wait()
		if !a.Gone(b.Inc()) || !c.Gone(b.Inc()) {
			t.Error("not all nodes know")
		}
		if !a.Suspect(t.Context(), b.Inc()) {
			t.Error("the second verdict differs")
		}
		a.Close(t.Context())
		c.Close(t.Context())
		b.docs.Cut(false)
		b.Close(t.Context())
	})
}

// TestSucceed: a node that was killed and is started again at its address is known to be gone at once, though its
// address answers. One that answers pings stays.
func TestSucceed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a, b, c := w.join("a"), w.join("b"), w.join("c")
		b.docs.Cut(true)
		b.bus.cut()
		began := time.Now()
		again, second := w.join("b"), w.join("c")
		// As after a kill of the store's leader, the first requests fail: one to read, one to write.
		first := []storetest.Fault{storetest.Drop, storetest.None, storetest.Drop}
		again.faults(func() (f storetest.Fault) {
			if len(first) > 0 {
				f, first = first[0], first[1:]
			}
			return f
		})
		for _, m := range []*member{again, second} {
			if err := m.health.succeed(m.o.Name, m.o.URL); err != nil {
				t.Error(err)
			}
		}
		synctest.Wait()
		if took := time.Since(began); !a.Gone(b.Inc()) || took > nodeTTL/2 {
			t.Errorf("after %v: gone %v", took, a.Gone(b.Inc()))
		}
		if a.Gone(again.Inc()) || a.Gone(c.Inc()) || a.Gone(second.Inc()) {
			t.Error("a node that answers is gone")
		}
		for _, m := range []*member{a, c, again, second} {
			m.Close(t.Context())
		}
		b.docs.Cut(false)
		b.Close(t.Context())
	})
}

// TestThirdNode: a node that only one other cannot reach stays, because a third one reaches it. A living
// node that was found dead fences itself at its renewal.
func TestThirdNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a, b, c := w.join("a"), w.join("b"), w.join("c")
		synctest.Wait()
		a.o.Dial = func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("no route") }
		lonely := &oneWay{Bus: a.bus, not: subjectPing(b.Inc())}
		a.o.Bus = lonely
		if a.Suspect(t.Context(), b.Inc()) {
			t.Error("the third node reaches it, and it is dead")
		}
		doc, err := w.docs.Get(t.Context(), "n."+b.Inc())
		if err != nil || w.docs.Delete(t.Context(), doc.Key, doc.Rev) != nil {
			t.Fatal(err)
		}
		fenced, inc := b.Fenced(), b.Inc()
		time.Sleep(renewEvery + time.Second)
		select {
		case <-fenced:
		default:
			t.Error("a node whose document was deleted goes on")
		}
		synctest.Wait()
		if b.Inc() == inc || c.Gone(b.Inc()) {
			t.Error("it is not back as another one")
		}
		for _, m := range []*member{a, b, c} {
			m.Close(t.Context())
		}
	})
}

// oneWay is a Bus on which one subject cannot be reached.
type oneWay struct {
	store.Bus
	not string
}

func (b *oneWay) Ask(subject string, h store.Header, body []byte, timeout time.Duration, f func(store.Message, error)) {
	if subject == b.not {
		time.AfterFunc(timeout, func() { f(store.Message{}, store.ErrUnavailable) })
		return
	}
	b.Bus.Ask(subject, h, body, timeout, f)
}

// TestStrict: a strict claim of a holder that is gone waits until the holder must have fenced itself. After a
// drain it waits for nothing.
func TestStrict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a, b := w.join("a"), w.join("b")
		first, err := a.Claim(t.Context(), "u.one", true)
		if err != nil {
			t.Fatal(err)
		}
		var held *heldError
		if _, err := b.Claim(t.Context(), "u.one", true); !errors.As(err, &held) || held.Inc != a.Inc() {
			t.Errorf("%v", err)
		}
		time.Sleep(10 * time.Second)
		w.kill(a)
		killed := time.Now()
		fenced := a.Fenced()
		if !b.Suspect(t.Context(), a.Inc()) {
			t.Fatal("not dead")
		}
		second, err := b.Claim(t.Context(), "u.one", true)
		if err != nil {
			t.Fatal(err)
		}
		if took := time.Since(killed); took < lease.FenceAfter || took > 25*time.Second {
			t.Errorf("free after %v", took)
		}
		select {
		case <-fenced:
			<-first.Lost()
		default:
			t.Error("two holders at a time")
		}
		third := w.join("c")
		b.Close(t.Context())
		<-second.Lost()
		began := time.Now()
		if _, err := third.Claim(t.Context(), "u.one", true); err != nil || time.Since(began) > time.Second {
			t.Errorf("after a drain: %v, %v", time.Since(began), err)
		}
		third.Close(t.Context())
		a.docs.Cut(false)
		a.Close(t.Context())
	})
}

// TestTake: of nodes that take one thing at a time, one owns it, and the others learn which.
func TestTake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var all []*member
		for i := range 5 {
			all = append(all, w.join(fmt.Sprint("n", i)))
		}
		var mu sync.Mutex
		owners := map[string]int{}
		var group sync.WaitGroup
		for _, m := range all {
			group.Go(func() {
				inc, err := m.Take(t.Context(), "s.x", time.Hour)
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				owners[inc]++
				mu.Unlock()
			})
		}
		group.Wait()
		if len(owners) != 1 {
			t.Errorf("owners %v", owners)
		}
		owner := slices.Collect(maps.Keys(owners))[0]
		for _, m := range all {
			if m.Inc() == owner {
				m.Close(t.Context())
			}
		}
		owners = map[string]int{}
		for _, m := range all {
			if m.Inc() == owner {
				continue
			}
			inc, err := m.Take(t.Context(), "s.x", time.Hour)
			if err != nil {
				t.Fatal(err)
			}
			owners[inc]++
		}
		if len(owners) != 1 || owners[owner] != 0 {
			t.Errorf("after the owner left: %v", owners)
		}
		for _, m := range all {
			m.Close(t.Context())
		}
	})
}

// TestWatch: requests in flight to a node end when it is silent, and not while this node itself is deaf.
func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a, b := w.join("a"), w.join("b")
		synctest.Wait()
		gone, stop := a.Watch(b.Inc())
		time.Sleep(30 * time.Second)
		select {
		case <-gone:
			t.Error("a node that answers is silent")
		default:
		}
		b.bus.cut()
		began := time.Now()
		<-gone
		if took := time.Since(began); took > 6*time.Second {
			t.Errorf("silent after %v", took)
		}
		stop()
		synctest.Wait()
		a.health.mu.Lock()
		if len(a.health.watches) > 0 {
			t.Error("the watch of a silent node stays for ever")
		}
		a.health.mu.Unlock()
		a.bus.cut()
		gone, stop = a.Watch(b.Inc())
		time.Sleep(10 * time.Second)
		select {
		case <-gone:
			t.Error("the silence of this node's bus counts for another")
		default:
		}
		stop()
		a.Close(t.Context())
		b.Close(t.Context())
	})
}

// TestWatchEnded: requests to a node whose process has ended do not wait for three silences. A node without a
// listener on the bus that takes connections gets the time of three.
func TestWatchEnded(t *testing.T) {
	for _, ended := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			a, b := w.join("a"), w.join("b")
			synctest.Wait()
			gone, stop := a.Watch(b.Inc())
			time.Sleep(10 * time.Second)
			a.bus.end(subjectPing(b.Inc()))
			w.cut(b.host, ended)
			began := time.Now()
			<-gone
			if took := time.Since(began); ended && took > 1500*time.Millisecond || !ended && took < 2*time.Second {
				t.Errorf("ended %v: given up after %v", ended, took)
			}
			stop()
			a.Close(t.Context())
			b.Close(t.Context())
		})
	}
}
