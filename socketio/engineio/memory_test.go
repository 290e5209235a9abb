package engineio

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/limit/memory"
)

// What a peer sends is counted as it comes, whatever its header promises, until the session is at rest; a message without room ends
// its session with the code for that.
func TestMessagesAreCounted(t *testing.T) {
	pool := memory.NewPool(memory.Options{Limit: 8 << 20, Wait: 10 * time.Millisecond})
	env := &environment{maxMessage: 16 << 20, memory: pool.Account("hub")}
	read := func(data []byte) (*reading, packet, error) {
		r := takeReading(&Session{env: env}, serverConn(&stream{data: data, step: 8 << 10}, 16<<20))
		p, err := r.next()
		return r, p, err
	}
	message := func(n int) []byte { return append([]byte{'4'}, bytes.Repeat([]byte{'x'}, n)...) }

	first, p, err := read(clientFrame(finBit|opText, message(2<<20)))
	if u := pool.Usage(); err != nil || len(p.data) != 2<<20 || u.Memory < 2<<20 || u.Memory > 4<<20 {
		t.Errorf("%d bytes, %v, held is %+v", len(p.data), err, u)
	}
	half, _, err := read(clientFrame(finBit|opText, message(8<<20))[:1<<20])
	if u := pool.Usage(); !errors.Is(err, io.EOF) || u.Memory > 7<<20 {
		t.Errorf("%v, held is %+v", err, u)
	}
	half.giveBack()
	var refused *frameError
	over, _, err := read(clientFrame(finBit|opText, message(7<<20)))
	if !errors.As(err, &refused) || refused.code != closeTryAgain {
		t.Errorf("%v", err)
	}
	over.giveBack()
	small, p, err := read(clientFrame(finBit|opText, message(1<<10)))
	if err != nil || len(p.data) != 1<<10 {
		t.Errorf("a small one beside it: %d bytes, %v", len(p.data), err)
	}
	small.giveBack()
	first.giveBack()
	if u := pool.Usage(); u.Memory != 0 {
		t.Errorf("in the end there is %+v", u)
	}
}

// The same where all of it is read at once: POSTs, and what a client reads.
func TestReadAllCounts(t *testing.T) {
	pool := memory.NewPool(memory.Options{Limit: 4 << 20})
	room := pool.Hold("", "peer")
	body := bytes.Repeat([]byte{'x'}, 1<<20)
	if got, err := readAll(bytes.NewReader(body), nil, &room); err != nil || !bytes.Equal(got, body) || pool.Usage().Memory < 1<<20 {
		t.Errorf("%d bytes, %v, %+v", len(got), err, pool.Usage())
	}
	room.Release()
	if _, err := readAll(bytes.NewReader(bytes.Repeat(body, 3)), nil, &room); !errors.Is(err, ErrNoRoom) {
		t.Errorf("%v", err)
	}
	room.Release()
	if u := pool.Usage(); u.Memory != 0 {
		t.Errorf("in the end there is %+v", u)
	}
}

// TestPollsAreCounted: the messages that wait for a poll count also where each of them is small, and the payload of a poll
// counts until it is written. A message without room is refused, and small ones without room make a slow consumer.
func TestPollsAreCounted(t *testing.T) {
	pool := memory.NewPool(memory.Options{Limit: 4 << 20})
	p := setup(t, Config{Memory: pool.Account("hub"), MaxPayload: 1 << 20})
	url, far, side := p.open()
	small := repeat("s", 60<<10)
	for range 16 {
		if err := far.SendLater(Binary(small)); err != nil {
			t.Fatal(err)
		}
	}
	if u := pool.Usage(); u.Memory < 15*60<<10 {
		t.Errorf("%d bytes count, and %d wait", u.Memory, 16*60<<10)
	}
	if err := far.Send(Binary(repeat("l", 3<<20))); !errors.Is(err, ErrNoRoom) {
		t.Errorf("a large message without room: %v", err)
	}
	far.mu.Lock()
	body, frames, err := far.queue.takePayload(1<<20, far.env.memory)
	far.mu.Unlock()
	if u := pool.Usage(); err != nil || len(body) < 12*80<<10 || u.Memory < int64(len(body)) {
		t.Errorf("%d bytes count, and a payload has %d: %v", u.Memory, len(body), err)
	}
	far.wrote(frames, len(body))
	if response, text := get(t, url); response.StatusCode != http.StatusOK || len(text) < 80<<10 {
		t.Errorf("%s with %d bytes", response.Status, len(text))
	}
	waitFor(t, func() bool { return pool.Usage().Memory == 0 })

	other := pool.Hold("", "another")
	if !other.TryGrow(2 << 20) {
		t.Fatal("no room for another")
	}
	defer other.Release()
	for err = nil; err == nil; {
		err = far.SendLater(Binary(small))
	}
	if !errors.Is(err, ErrSlowConsumer) || side.reason(t) != ReasonSlowConsumer {
		t.Errorf("small messages without room: %v", err)
	}
	waitFor(t, func() bool { return pool.Usage().Memory == other.Len() })
}

// TestPostsAreCounted: a POST counts with the bytes of its binary packets, and one without room ends its session with 503.
func TestPostsAreCounted(t *testing.T) {
	pool := memory.NewPool(memory.Options{Limit: 4 << 20})
	p := setup(t, Config{Memory: pool.Account("hub"), MaxPayload: 8 << 20})
	url, session, r := p.open()
	packet := "b" + strings.Repeat("QUJD", 100<<10)
	if response, text := do(t, http.MethodPost, url, packet); response.StatusCode != http.StatusOK || len(r.next(t)) != 2+(600<<10) {
		t.Errorf("%s %s", response.Status, text)
	}
	response, text := do(t, http.MethodPost, url, "b"+strings.Repeat("QUJD", 300<<10)) // its text has room, with its bytes it has none
	if response.StatusCode != http.StatusServiceUnavailable || !strings.Contains(text, "limits.memory") || !errors.Is(session.Err(), ErrNoRoom) {
		t.Errorf("%s %s, %v", response.Status, text, session.Err())
	}
	if u := pool.Usage(); u.Memory != 0 {
		t.Errorf("in the end there is %+v", u)
	}
}

// TestClientPollsAreCounted: messages that a client has polled count until its Receiver has taken them.
func TestClientPollsAreCounted(t *testing.T) {
	pool := memory.NewPool(memory.Options{Limit: 8 << 20})
	p := setup(t, Config{MaxPayload: 1 << 20})
	near, side, far, _ := p.dial(ClientConfig{Transports: []Transport{Polling}, Memory: pool.Account("hub")})
	if err := far.Send(Binary(repeat("l", 600<<10))); err != nil {
		t.Fatal(err)
	}
	if n := len(side.next(t)); n != 2+(1200<<10) {
		t.Errorf("%d bytes", n)
	}
	waitFor(t, func() bool { return pool.Usage().Memory == 0 })
	if err := far.Send(Binary(repeat("l", 4<<20))); err != nil {
		t.Fatal(err)
	}
	if <-near.Done(); !errors.Is(near.Err(), ErrNoRoom) {
		t.Errorf("%v", near.Err())
	}
	waitFor(t, func() bool { return pool.Usage().Memory == 0 })
}
