package memory

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
)

// ErrTooLarge is returned by a Buffer for more bytes than its limit.
var ErrTooLarge = errors.New("over the bound on one message")

const (
	firstBytes = 16 << 10  // of a Buffer of unknown length
	aheadBytes = 1 << 20   // allocated ahead for a Buffer of announced length
	fileBytes  = 256 << 10 // written to a file at once
)

// Buffer receives one message, whose length may be unknown. It is for one goroutine. Its owner ends
// it with Block or Drop.
type Buffer struct {
	a     *Account
	ctx   context.Context
	limit int64

	mem  []byte // all bytes so far, or those not in the file yet
	hold Hold
	file *spill // nil: everything is in mem
	size int64
	err  error
}

// NewBuffer returns an empty Buffer for at most limit bytes; ctx bounds its
// waiting for room.
func (a *Account) NewBuffer(ctx context.Context, limit int64) *Buffer {
	return &Buffer{a: a, ctx: ctx, limit: limit, hold: a.Hold()}
}

// Len returns the number of bytes so far.
func (b *Buffer) Len() int64 { return b.size }

// Write appends p. An error is ErrTooLarge, an *Error or the error of the context. After it the
// Buffer accepts no more.
func (b *Buffer) Write(p []byte) (n int, err error) {
	for ; err == nil && len(p) > fileBytes; p = p[fileBytes:] { // so that a file takes no more of the heap
		var part int
		part, err = b.append(p[:fileBytes])
		n += part
	}
	if err == nil {
		var part int
		part, err = b.append(p)
		n += part
	}
	return n, err
}

func (b *Buffer) append(p []byte) (int, error) {
	if b.err == nil && b.size+int64(len(p)) > b.limit {
		b.err = ErrTooLarge
	}
	if b.err == nil {
		b.err = b.room(len(p), -1)
	}
	if b.err != nil {
		return 0, b.err
	}
	b.mem = append(b.mem, p...)
	b.size += int64(len(p))
	return len(p), b.flush()
}

// Grow makes room for n more bytes at once, up to the amount that a Buffer allocates ahead; a failure is the error
// of the next Write. Without it a message of several parts is copied as it grows.
func (b *Buffer) Grow(n int) {
	if b.err == nil && b.file == nil && n <= aheadBytes && b.size+int64(n) <= b.limit {
		b.err = b.room(n, 0)
	}
}

// Fill reads all of r. expect is the announced number of bytes; -1 is unknown. Memory grows with
// the received bytes, not with the announced number. It returns the errors of r and of Write.
func (b *Buffer) Fill(r io.Reader, expect int64) error {
	for b.err == nil {
		if len(b.mem) == cap(b.mem) {
			// One more than is announced, so that the end is seen.
			if b.err = b.room(1, expect+1); b.err != nil {
				break
			}
		}
		n, err := r.Read(b.mem[len(b.mem):cap(b.mem)])
		b.mem = b.mem[:len(b.mem)+n]
		if b.size += int64(n); b.size > b.limit {
			b.err = ErrTooLarge
			break
		}
		if ferr := b.flush(); ferr != nil || err != nil {
			if ferr == nil && !errors.Is(err, io.EOF) {
				ferr = err
			}
			return ferr
		}
	}
	return b.err
}

// room makes room for n more bytes in mem. total is the expected total; 0 or less is unknown.
func (b *Buffer) room(n int, total int64) error {
	need := int64(len(b.mem) + n)
	if need <= int64(cap(b.mem)) {
		return nil
	}
	if b.file != nil {
		if err := b.write(); err != nil {
			return err
		}
		if n > cap(b.mem) {
			b.mem = make([]byte, 0, n)
		}
		return nil
	}
	size := max(2*int64(cap(b.mem)), need, firstBytes)
	if total >= need {
		size = min(total, max(size, aheadBytes))
	}
	// A message of Free bytes has room for one more, so that its end is seen.
	if b.a == nil || size <= 2*Free {
		b.mem = append(make([]byte, 0, size), b.mem...)
		return nil
	}
	spillAt := b.a.p.o.SpillAt
	size = max(min(size, spillAt+1), need)
	if need > spillAt+1 || !b.hold.TryGrow(size) {
		return b.spill(n, total)
	}
	b.a.p.discard(int64(cap(b.mem)))
	b.mem = append(make([]byte, 0, size), b.mem...)
	return nil
}

// spill moves the message to a file, including later bytes. Without files it waits for memory.
func (b *Buffer) spill(n int, total int64) error {
	f, err := b.a.p.files.create()
	if err == nil {
		b.file = f
		if err = b.write(); err == nil {
			b.mem = make([]byte, 0, max(fileBytes, n))
			b.hold.Release()
			return nil
		}
		b.file.drop()
		b.file = nil
	}
	need := int64(len(b.mem) + n)
	size := max(2*int64(cap(b.mem)), need)
	if total >= need {
		size = min(size, total)
	}
	if !b.hold.TryGrow(size) {
		size = min(size, need+aheadBytes)
	}
	if herr := b.hold.grow(b.ctx, size, true); herr != nil {
		if full := (*Error)(nil); errors.As(herr, &full) {
			full.Disk = err
		}
		return herr
	}
	b.a.p.discard(int64(cap(b.mem)))
	b.mem = append(make([]byte, 0, size), b.mem...)
	return nil
}

// flush writes to the file if there is enough for one write.
func (b *Buffer) flush() error {
	if b.file != nil && len(b.mem) >= fileBytes {
		b.err = b.write()
	}
	return b.err
}

func (b *Buffer) write() error {
	if len(b.mem) == 0 {
		return nil
	}
	if _, err := b.file.Write(b.mem); err != nil {
		return &Error{Size: b.size, Limit: b.a.p.o.Limit, Disk: err}
	}
	b.mem = b.mem[:0]
	return nil
}

// Each calls f with the bytes so far, in pieces that are valid only during the call, until f
// returns true.
func (b *Buffer) Each(f func(piece []byte) (done bool)) error {
	if b.file != nil {
		r := io.NewSectionReader(b.file.f, 0, b.file.size)
		buf := make([]byte, fileBytes)
		for {
			n, err := r.Read(buf)
			if f(buf[:n]) {
				return nil
			}
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return err
			}
		}
	}
	f(b.mem)
	return nil
}

// Block ends the Buffer and returns the message. The caller releases it.
func (b *Buffer) Block() (*Block, error) {
	if b.err != nil {
		b.Drop()
		return nil, b.err
	}
	if b.file == nil {
		block := &Block{data: b.mem, size: b.size, hold: b.hold}
		b.mem, b.hold = nil, Hold{}
		return block, nil
	}
	if err := b.write(); err != nil {
		b.Drop()
		return nil, err
	}
	block := &Block{a: b.a, file: b.file, size: b.size}
	b.mem, b.file = nil, nil
	return block, nil
}

// Drop ends the Buffer and discards the message. After Block it does nothing.
func (b *Buffer) Drop() {
	b.mem = nil
	b.hold.Release()
	if b.file != nil {
		b.file.drop()
		b.file = nil
	}
}

// Block is one received message. It is for one goroutine at a time. Its owner releases it, or
// delivers it.
type Block struct {
	size int64
	data []byte // in memory, or once it is open
	hold Hold   // of data on the heap
	made taken  // by the call whose result it is

	a      *Account
	file   *spill
	opened bool
}

// Of returns a Block of bytes on the heap that are not counted.
func Of(data []byte) *Block { return &Block{size: int64(len(data)), data: data} }

// Held returns a Block of bytes on the heap that a Hold counts, which is empty then.
func Held(data []byte, hold *Hold) *Block {
	return &Block{size: int64(len(data)), data: data, hold: *hold.Move()}
}

// Size returns the number of its bytes.
func (b *Block) Size() int64 { return b.size }

// InFile reports whether its bytes are in a file.
func (b *Block) InFile() bool { return b.file != nil }

// Reader returns a reader of its bytes, which neither waits nor takes room. It is
// valid until Open or Release.
func (b *Block) Reader() io.Reader {
	if b.file == nil {
		return bytes.NewReader(b.data)
	}
	return io.NewSectionReader(b.file.f, 0, b.size)
}

// Open returns the bytes. They must not be changed, and are valid until Release or, after Deliver,
// until the Scope's end. For a file it waits for room in memory: at most Options.Turn, unless ctx
// has a Scope that holds a file already. It returns an *Error or the error of ctx.
func (b *Block) Open(ctx context.Context) ([]byte, error) {
	if b.file == nil || b.opened {
		return b.data, nil
	}
	if err := b.a.p.wait(ctx, b.a.name, b.size, FromContext(ctx).holdsFile()); err != nil {
		return nil, err
	}
	data, err := b.file.open(b.size)
	if err != nil {
		b.a.p.giveOpen(b.size)
		return nil, fmt.Errorf("reading a message from its file: %w", err)
	}
	b.data, b.opened = data, true
	return data, nil
}

// look is Open for bytes that the call itself has made. It counts no room of a file, whose pages are the system's
// to take back: the message that they come from has a turn.
func (b *Block) look() ([]byte, error) {
	if b.file == nil {
		return b.data, nil
	}
	data, err := b.file.open(b.size)
	if err != nil {
		return nil, fmt.Errorf("reading what a call has made from its file: %w", err)
	}
	b.data = data
	return data, nil
}

// Release ends the use of the Block. Its bytes become invalid. It may be called more than once.
func (b *Block) Release() {
	if b == nil {
		return
	}
	b.data = nil
	b.hold.Release()
	b.made.release()
	if b.file != nil {
		b.file.drop()
		b.file = nil
		if b.opened {
			b.a.p.collect(b.size)
			b.a.p.giveOpen(b.size)
		}
	}
}

// Deliver hands the Block to the Scope of ctx and returns part, some of its bytes. Without a Scope,
// Deliver releases the Block; it returns a copy of part if the Block is in a file.
func (b *Block) Deliver(ctx context.Context, part []byte) []byte {
	if b == nil || b.file == nil && b.hold.n == 0 {
		return part // it is not counted
	}
	if FromContext(ctx).add(b) {
		return part
	}
	if b.file != nil {
		part = append(make([]byte, 0, len(part)), part...)
	}
	b.Release()
	return part
}
