package engineio

import (
	"bytes"
	"errors"
	"io"
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
