package memory

import (
	"context"
	"io"
	"math"
	"sync"
	"unsafe"
)

// Scope holds the Blocks whose bytes one call uses, and the bytes that the call has taken for copies. It
// releases both at its end. The zero value is ready for use. It is safe for concurrent use.
type Scope struct {
	mu      sync.Mutex // guards below
	ended   bool
	blocks  []*Block
	made    taken
	request int64 // bytes of the call's request; see Within
}

type scopeKey struct{}

// Key is the key of a *Scope among the values of a context, for contexts of a type
// of their own.
var Key any = scopeKey{}

// WithScope returns a context for a call whose results may be used until the Scope ends. The caller
// ends the Scope when it does not need the results any more. Contexts of calls within this call
// keep the Scope.
func WithScope(ctx context.Context) (context.Context, *Scope) {
	c := &Scoped{Context: ctx}
	return c, &c.Scope
}

// Scoped is a context with a Scope of its own, allocated together.
type Scoped struct {
	context.Context
	Scope Scope
}

// Value implements context.Context.
func (c *Scoped) Value(key any) any {
	if key == Key {
		return &c.Scope
	}
	return c.Context.Value(key)
}

// WithoutScope returns a context for a call that outlives the Scope of ctx, such as one whose
// result another request fetches. Its results are on the heap.
func WithoutScope(ctx context.Context) context.Context {
	if FromContext(ctx) == nil {
		return ctx
	}
	return context.WithValue(ctx, scopeKey{}, (*Scope)(nil))
}

// FromContext returns the Scope of a context, nil where there is none.
func FromContext(ctx context.Context) *Scope {
	s, _ := ctx.Value(scopeKey{}).(*Scope)
	return s
}

// add takes over a Block. It returns false if there is no Scope or it has ended.
func (s *Scope) add(b *Block) bool {
	if s == nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return false
	}
	s.blocks = append(s.blocks, b)
	return true
}

func (s *Scope) holdsFile() bool {
	if s == nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range s.blocks {
		if b.file != nil {
			return true
		}
	}
	return false
}

// Ends reports whether data is invalid after the Scope's end: it is in a file of the Scope.
func (s *Scope) Ends(data []byte) bool {
	if s == nil || len(data) == 0 {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return within(s.blocks, data)
}

// Make returns the bytes that write writes for the call of ctx, which come from other bytes. If those are in a
// file of the Scope, or if there is no room on the heap, the bytes are in such a file as well, and valid until
// the Scope's end: a part of a large message takes no more of the heap than the message itself. Bytes on the
// heap are counted until then. Without a Scope that counts, there is no bound. The error is an *Error, or the
// error of write or of ctx.
func Make(ctx context.Context, from []byte, write func(io.Writer) error) ([]byte, error) {
	s := FromContext(ctx)
	a := s.accountOf(from)
	if a == nil {
		a = Owner(ctx)
	}
	b := a.NewBuffer(ctx, math.MaxInt64)
	if err := write(b); err != nil {
		b.Drop()
		return nil, err
	}
	block, err := b.Block()
	if err != nil {
		return nil, err
	}
	made, err := block.look()
	if err != nil {
		block.Release()
		return nil, err
	}
	if a != nil && !s.add(block) { // the Scope has ended
		block.Release()
		return nil, context.Canceled
	}
	return made, nil
}

// accountOf returns the Account of the file that contains data, nil if it is in none.
func (s *Scope) accountOf(data []byte) *Account {
	if s == nil || len(data) == 0 {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, b := range s.blocks {
		if within(s.blocks[i:i+1], data) {
			return b.a
		}
	}
	return nil
}

// Detach moves n bytes that the call of ctx has taken into a Block, which its caller releases: for bytes that wait for
// something after the call, such as an answer for its reader. moved is how many of them count; the Block is nil if none do.
func Detach(ctx context.Context, n int64) (b *Block, moved int64) {
	s := FromContext(ctx)
	if s == nil {
		return nil, 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	m := &s.made
	if n = min(n, m.held, m.n); n <= 0 {
		return nil, 0
	}
	m.n -= n
	m.held -= n
	return &Block{made: taken{p: m.p, kind: m.kind, name: m.name, n: n, held: n}}, n
}

// Hand moves the Blocks of the Scope to the Scope of ctx, which keeps data valid, and ends the
// Scope. If ctx has none, Hand returns a copy of data if it is in a file.
func (s *Scope) Hand(ctx context.Context, data []byte) []byte {
	s.mu.Lock()
	blocks, made := s.blocks, s.made
	s.ended, s.blocks, s.made.held = true, nil, 0
	s.mu.Unlock()
	if made.held > 0 {
		blocks = append(blocks, &Block{made: made})
	}
	if len(blocks) == 0 {
		return data
	}
	if to := FromContext(ctx); to != nil {
		to.mu.Lock()
		taken := !to.ended
		if taken {
			to.blocks = append(to.blocks, blocks...)
		}
		to.mu.Unlock()
		if taken {
			return data
		}
	}
	if within(blocks, data) {
		data = append(make([]byte, 0, len(data)), data...)
	}
	for _, b := range blocks {
		b.Release()
	}
	return data
}

// within reports whether data is of the file of one of the blocks.
func within(blocks []*Block, data []byte) bool {
	at := uintptr(unsafe.Pointer(unsafe.SliceData(data)))
	for _, b := range blocks {
		if b.file == nil || len(b.data) == 0 {
			continue
		}
		if start := uintptr(unsafe.Pointer(unsafe.SliceData(b.data))); at >= start && at < start+uintptr(len(b.data)) {
			return true
		}
	}
	return false
}

// End releases everything. It may be called more than once.
func (s *Scope) End() {
	if s == nil {
		return
	}
	s.mu.Lock()
	blocks, made := s.blocks, s.made
	s.ended, s.blocks, s.made.held = true, nil, 0
	s.mu.Unlock()
	made.release()
	for _, b := range blocks {
		b.Release()
	}
}
