package roster

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/weir-mcp/weir/internal/store"
)

const (
	// maxInline is the size up to which a body goes with its message.
	maxInline = 64 << 10
	// keepBody is how long the sender keeps a larger body, and fetchTime how long its receiver tries.
	keepBody  = time.Minute
	fetchTime = 20 * time.Second
	// maxBodies bounds the bytes that are kept, and maxLine the messages that wait for one that is fetched.
	maxBodies = 256 << 20
	maxLine   = 4096
)

// BodyPath is where other nodes fetch bodies over the peer link.
const BodyPath = "/peer/v1/body/"

// Bodies keeps bodies of messages for other nodes.
type Bodies struct {
	// Fetch gets the body of a path from another node.
	Fetch func(ctx context.Context, inc, path string, size int64) ([]byte, error)

	mu   sync.Mutex // guards below
	size int
	kept map[string][]byte
}

// ErrBusy says that a large message finds no room.
var ErrBusy = errors.New("too many large messages are under way")

// put keeps a body and returns its id.
func (b *Bodies) put(body []byte) (string, error) {
	id := rand.Text()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.size+len(body) > maxBodies {
		return "", ErrBusy
	}
	if b.kept == nil {
		b.kept = map[string][]byte{}
	}
	b.kept[id] = body
	b.size += len(body)
	time.AfterFunc(keepBody, func() { b.take(id) })
	return id, nil
}

// take removes a body and returns it, nil if it is not there.
func (b *Bodies) take(id string) []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	body := b.kept[id]
	delete(b.kept, id)
	b.size -= len(body)
	return body
}

// ServeHTTP gives a body to another node, once. Serve it on the peer link alone.
func (b *Bodies) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body := b.take(strings.TrimPrefix(r.URL.Path, BodyPath))
	if body == nil {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.Header().Set("Content-Type", "application/octet-stream")
	_, _ = w.Write(body) // the receiver sees that it is short
}

// shrink replaces a large body by its id.
func (s *Shared) shrink(h store.Header, body []byte) (store.Header, []byte, error) {
	if len(body) <= maxInline || s.o.Bodies == nil {
		return h, body, nil
	}
	id, err := s.o.Bodies.put(body)
	if err != nil {
		return nil, nil, err
	}
	h[headerBody] = id + "," + strconv.Itoa(len(body))
	return h, nil, nil
}

// unsent forgets the body of a message that its receiver does not fetch any more. It would take room from
// others for keepBody.
func (s *Shared) unsent(h store.Header) {
	if id, _, large := strings.Cut(h[headerBody], ","); large {
		s.o.Bodies.take(id)
	}
}

// expand calls f with the body of a message, at once or when the body has been fetched.
func (s *Shared) expand(in store.Message, f func(body []byte, err error)) {
	id, size, large := strings.Cut(in.Header[headerBody], ",")
	if !large {
		f(in.Body, nil)
		return
	}
	from := in.Header[headerFrom]
	started := s.Go(func() {
		n, err := strconv.ParseInt(size, 10, 64)
		if err != nil || s.o.Bodies == nil || strings.ContainsAny(id, "/?#%") {
			f(nil, errMessage)
			return
		}
		ctx, cancel := context.WithTimeout(s.ctx, fetchTime)
		defer cancel()
		body, err := s.o.Bodies.Fetch(ctx, from, BodyPath+id, n)
		if err != nil {
			err = fmt.Errorf("the node %s did not give the body of its message: %w", from, err)
		}
		f(body, err)
	})
	if !started {
		f(nil, store.ErrUnavailable)
	}
}

// line keeps the messages of one subject in order while a body is fetched. Messages of other senders do not
// wait for it: the node that has the body may be gone.
type line struct {
	s *Shared

	mu      sync.Mutex                 // guards below
	waiting map[string][]store.Message // by the sender whose body is fetched
	count   int                        // of all that wait
}

// take handles a message. Calls must not overlap.
func (l *line) take(in store.Message) {
	from := in.Header[headerFrom]
	l.mu.Lock()
	if _, busy := l.waiting[from]; busy {
		if l.count < maxLine { // else it is lost, as on a line that is full
			l.waiting[from] = append(l.waiting[from], in)
			l.count++
		}
		l.mu.Unlock()
		return
	}
	_, large := in.Header[headerBody]
	if large {
		if l.waiting == nil {
			l.waiting = map[string][]store.Message{}
		}
		l.waiting[from] = nil
	}
	l.mu.Unlock()
	if !large {
		l.s.received(in, in.Body)
		return
	}
	l.fetch(from, in)
}

// fetch hands on a message when its body is there, and then those that have waited for it.
func (l *line) fetch(from string, in store.Message) {
	l.s.expand(in, func(body []byte, err error) {
		if err != nil {
			l.s.log.Warn("a message of another hub is lost", "err", err)
		} else {
			l.s.received(in, body)
		}
		for {
			next, more := l.next(from)
			if !more {
				return
			}
			if _, large := next.Header[headerBody]; large {
				l.fetch(from, next)
				return
			}
			l.s.received(next, next.Body)
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
