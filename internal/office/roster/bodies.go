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

// ServeHTTP gives a body to another node, once. Serve it only on the peer link.
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
	h.Set(headerBody, id+","+strconv.Itoa(len(body)))
	return h, nil, nil
}

// unsent forgets the body of a message that its receiver does not fetch any more. It would take room from
// others for keepBody.
func (s *Shared) unsent(h store.Header) {
	if id, _, large := strings.Cut(h.Get(headerBody), ","); large {
		s.o.Bodies.take(id)
	}
}

// expand calls f with the body of a message, at once or when the body has been fetched.
func (s *Shared) expand(in store.Message, f func(body []byte, err error)) {
	id, size, large := strings.Cut(in.Header.Get(headerBody), ",")
	if !large {
		f(in.Body, nil)
		return
	}
	from := in.Header.Get(headerFrom)
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
