package history

import (
	"crypto/rand"
	"errors"
	"strconv"
	"strings"
	"sync"

	"github.com/weir-mcp/weir/internal/identity"
	"github.com/weir-mcp/weir/internal/observe/telemetry"
	"github.com/weir-mcp/weir/internal/text"
)

// Limits of a Book.
const (
	// Kept is the number of events that a Book remembers.
	Kept = 1000
	// maxWatchers bounds concurrent Watchers.
	maxWatchers = 64
	// maxOfPrincipal bounds the calls of one principal, so that no principal takes the places of
	// others, and maxOfLocal the calls of all callers of a gateway without authentication.
	maxOfPrincipal = 4
	maxOfLocal     = 16
	// maxDetail bounds the text of an event that has no limit of its own, in characters.
	maxDetail = 500
)

// errTooMany reports that the limit of Watchers is reached.
var errTooMany = errors.New("too many consoles follow the calls: close one of them")

// A Book remembers events and counts them. The zero value is empty and ready to use. It is safe for
// concurrent use and has no goroutine. Its memory grows with the first Kept events and stays then.
//
// A Watcher that is slower than the events learns how many it has missed. It never delays a call.
type Book struct {
	mu       sync.Mutex // guards below
	run      string     // names this Book in the ids of its events
	events   []telemetry.Event
	next     uint64 // the number of the next event; the first is 0
	watchers map[*Watcher]struct{}
	of       map[string]int // the number of Watchers by principal
	steps    []step         // the step of a time is at its number modulo steps

	keeps     bool // events that bring an exchange have it kept
	exchanges exchanges
}

// A Watcher is one reader that follows the events of a Book.
type Watcher struct {
	book *Book
	of   string        // a principal
	wake chan struct{} // capacity 1: there is more
}

// Observe records an event. It never waits for a Watcher.
func (b *Book) Observe(e telemetry.Event) {
	if len(e.Detail) > maxDetail {
		e.Detail = strings.Clone(text.Fit(e.Detail, maxDetail))
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if e.Exchange != nil && b.keeps {
		b.exchanges.add(b.next, e.Exchange)
	}
	e.Exchange = nil
	if len(b.events) < Kept {
		b.events = append(b.events, e)
	} else {
		b.events[b.next%Kept] = e
	}
	b.next++
	b.count(&e)
	for w := range b.watchers {
		select {
		case w.wake <- struct{}{}:
		default:
		}
	}
}

// Run returns the name of the Book in the ids of its events. A restarted gateway has another one.
func (b *Book) Run() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.run == "" {
		b.run = rand.Text()[:8]
	}
	return b.run
}

// ID returns the id of the event with a number.
func (b *Book) ID(number uint64) string { return b.Run() + "." + strconv.FormatUint(number, 10) }

// Number returns the number of the event with an id. It returns false for an id of another Book.
func (b *Book) Number(id string) (uint64, bool) {
	run, number, _ := strings.Cut(id, ".")
	n, err := strconv.ParseUint(number, 10, 62)
	return n, err == nil && run == b.Run()
}

// A Numbered is an event with its number.
type Numbered struct {
	Number uint64
	telemetry.Event
}

// Recent returns at most n events for which fits reports true, the newest first, of those before a
// number. more reports whether there may be older ones. fits must not keep the event or change it,
// and must not call the Book.
func (b *Book) Recent(before uint64, n int, fits func(*telemetry.Event) bool) (found []Numbered, more bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	oldest := b.next - uint64(len(b.events))
	for at := min(before, b.next); at > oldest; at-- {
		e := &b.events[(at-1)%Kept]
		if !fits(e) {
			continue
		}
		if len(found) == n {
			return found, true
		}
		found = append(found, Numbered{at - 1, *e})
	}
	return found, false
}

// Watch starts to follow the events for a principal. The caller must call Leave. The error is
// errTooMany.
func (b *Book) Watch(principal string) (*Watcher, error) {
	most := maxOfPrincipal
	if principal == identity.Local {
		most = maxOfLocal
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.watchers) >= maxWatchers || b.of[principal] >= most {
		return nil, errTooMany
	}
	if b.watchers == nil {
		b.watchers, b.of = map[*Watcher]struct{}{}, map[string]int{}
	}
	w := &Watcher{book: b, of: principal, wake: make(chan struct{}, 1)}
	b.watchers[w] = struct{}{}
	b.of[principal]++
	return w, nil
}

// Leave ends a Watcher.
func (w *Watcher) Leave() {
	w.book.mu.Lock()
	defer w.book.mu.Unlock()
	if _, follows := w.book.watchers[w]; !follows {
		return
	}
	delete(w.book.watchers, w)
	if w.book.of[w.of]--; w.book.of[w.of] == 0 {
		delete(w.book.of, w.of)
	}
}

// More returns a channel that receives when there are new events.
func (w *Watcher) More() <-chan struct{} { return w.wake }

// Read copies the events from a number on into buf. It returns how many these are, the number of the
// first, and how many before it the Book has forgotten.
func (w *Watcher) Read(from uint64, buf []telemetry.Event) (n int, first, missed uint64) {
	b := w.book
	b.mu.Lock()
	defer b.mu.Unlock()
	first = min(from, b.next)
	if oldest := b.next - uint64(len(b.events)); first < oldest {
		missed = oldest - first
		first = oldest
	}
	for n < len(buf) && first+uint64(n) < b.next {
		buf[n] = b.events[(first+uint64(n))%Kept]
		n++
	}
	return n, first, missed
}
