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

	"github.com/weir-mcp/weir/internal/limit/memory"
	"github.com/weir-mcp/weir/internal/store"
)

const (
	// maxInline is the size up to which a body goes with its message.
	maxInline = 64 << 10
	// keepBody is how long the sender keeps a larger body, and fetchTime how long its receiver tries.
	keepBody  = time.Minute
	fetchTime = 20 * time.Second
	// maxLine bounds the messages that wait for one whose body is fetched.
	maxLine = 4096
)

// BodyPath is where other nodes fetch bodies over the peer link.
const BodyPath = "/peer/v1/body/"

// Bodies keeps bodies of messages for other nodes.
type Bodies struct {
	// Fetch gets the body of a path from another node.
	Fetch func(ctx context.Context, inc, path string, size int64) ([]byte, error)
	// Room counts bodies that wait for another node, and bodies that were fetched until the hub has taken their
	// messages. Nil does not count.
	Room *memory.Account

	mu   sync.Mutex // guards below
	kept map[string]*keptBody
}

// keptBody is a body with its room.
type keptBody struct {
	bytes []byte
	room  memory.Hold
}

// ErrNoRoom says that a large message finds no room. It did not reach the other node.
var ErrNoRoom = errors.New("there is no room for a large message to another node")

// put keeps a body and returns its id.
func (b *Bodies) put(body []byte) (string, error) {
	id, room := rand.Text(), b.Room.Hold()
	if err := room.Take(int64(len(body))); err != nil {
		return "", fmt.Errorf("%w: %w", ErrNoRoom, err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.kept == nil {
		b.kept = map[string]*keptBody{}
	}
	b.kept[id] = &keptBody{body, room}
	time.AfterFunc(keepBody, func() { b.drop(id) })
	return id, nil
}

// take removes a body and returns it, nil if it is not there. The caller releases its room.
func (b *Bodies) take(id string) *keptBody {
	b.mu.Lock()
	defer b.mu.Unlock()
	body := b.kept[id]
	delete(b.kept, id)
	return body
}

// drop forgets a body.
func (b *Bodies) drop(id string) {
	if body := b.take(id); body != nil {
		body.room.Release()
	}
}

// ServeHTTP gives a body to another node, once. Serve it only on the peer link.
func (b *Bodies) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body := b.take(strings.TrimPrefix(r.URL.Path, BodyPath))
	if body == nil {
		http.NotFound(w, r)
		return
	}
	defer body.room.Release()
	w.Header().Set("Content-Length", strconv.Itoa(len(body.bytes)))
	w.Header().Set("Content-Type", "application/octet-stream")
	_, _ = w.Write(body.bytes) // the receiver sees that it is short
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
		s.o.Bodies.drop(id)
	}
}

// expand calls f with the body of a message, at once or when the body has been fetched. The body counts while f runs.
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
		room := s.o.Bodies.Room.Hold()
		defer room.Release()
		if err := room.Grow(ctx, n); err != nil {
			f(nil, fmt.Errorf("%w: %w", ErrNoRoom, err))
			return
		}
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
