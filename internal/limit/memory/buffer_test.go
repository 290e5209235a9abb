package memory

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

func pattern(n int) []byte {
	data := make([]byte, n)
	for i := range data {
		data[i] = byte(i*7 + i>>8)
	}
	return data
}

// take reads a message in, opens and checks it, and returns it.
func take(t *testing.T, a *Account, data []byte, expect int64, r io.Reader) *Block {
	t.Helper()
	b := a.NewBuffer(t.Context(), int64(len(data)))
	if err := b.Fill(r, expect); err != nil {
		t.Fatalf("%d bytes, %d expected: %v", len(data), expect, err)
	}
	block, err := b.Block()
	if err != nil {
		t.Fatal(err)
	}
	got, err := block.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, data) || block.Size() != int64(len(data)) {
		t.Fatalf("%d bytes, %d expected: %d other bytes came", len(data), expect, len(got))
	}
	return block
}

// However long a message is and however it comes, it is what was sent, and in the
// end nothing is held.
func TestBuffer(t *testing.T) {
	dir := t.TempDir()
	p := NewPool(Options{Limit: 64 * mb, SpillAt: mb, Dir: dir, Linger: -1})
	defer p.Close()
	for _, size := range []int{0, 1, firstBytes, Free, Free + 1, 300_000, mb, mb + 1, 3 * mb, 20*mb + 17} {
		data := pattern(size)
		for _, expect := range []int64{-1, int64(size), 0, int64(size) / 2, 2 * int64(size)} {
			block := take(t, p.Account("a"), data, expect, bytes.NewReader(data))
			if block.InFile() != (size > mb) {
				t.Errorf("%d bytes, in a file: %v", size, block.InFile())
			}
			if u := p.Usage(); max(int64(size), expect) <= Free && u.Memory != 0 || size > 2*Free && u.Memory < int64(min(size, mb)) || size > mb && u.Disk != int64(size) {
				t.Errorf("%d bytes: %+v", size, u)
			}
			block.Release()
			block.Release()
			want(t, p, Usage{})
		}
		take(t, p.Account("a"), data, -1, iotest.DataErrReader(bytes.NewReader(data))).Release()
		take(t, nil, data, -1, bytes.NewReader(data)).Release()
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("files are left: %v, %v", left, err)
	}
}

func TestBufferWrite(t *testing.T) {
	p := NewPool(Options{Limit: 64 * mb, SpillAt: mb, Dir: t.TempDir(), Linger: -1})
	defer p.Close()
	random := rand.New(rand.NewPCG(1, 2))
	data := pattern(5 * mb)
	b := p.Account("a").NewBuffer(t.Context(), int64(len(data)))
	for rest := data; len(rest) > 0; {
		n := min(random.IntN(600_000), len(rest))
		if _, err := b.Write(rest[:n]); err != nil {
			t.Fatal(err)
		}
		rest = rest[n:]
	}
	block, err := b.Block()
	if err != nil {
		t.Fatal(err)
	}
	if got, err := block.Open(t.Context()); err != nil || !bytes.Equal(got, data) {
		t.Fatalf("%d bytes, %v", len(got), err)
	}
	block.Release()
	want(t, p, Usage{})
}

func TestBufferGrow(t *testing.T) {
	b := (*Account)(nil).NewBuffer(t.Context(), 1<<20)
	b.Grow(300_000)
	first := cap(b.mem)
	for range 3 {
		if _, err := b.Write(make([]byte, 100_000)); err != nil {
			t.Fatal(err)
		}
	}
	if first < 300_000 || cap(b.mem) != first {
		t.Errorf("room for %d bytes, then for %d: the message was copied as it grew", first, cap(b.mem))
	}
	b.Grow(2 << 20) // more than the limit is no error before it is written
	if _, err := b.Write([]byte("x")); err != nil || b.Len() != 300_001 {
		t.Errorf("%d bytes, %v", b.Len(), err)
	}
	b.Drop()
}

func TestBufferErrors(t *testing.T) {
	broken := errors.New("broken")
	many := bytes.NewReader(pattern(4 * mb))
	for name, test := range map[string]struct {
		options Options
		limit   int64
		r       io.Reader
		check   func(err error) bool
	}{
		"too long":        {Options{Dir: "."}, mb, many, func(err error) bool { return errors.Is(err, ErrTooLarge) }},
		"too long, short": {Options{Dir: "."}, 10, strings.NewReader("eleven bytes"), func(err error) bool { return errors.Is(err, ErrTooLarge) }},
		"broken":          {Options{Dir: "."}, 8 * mb, io.MultiReader(bytes.NewReader(pattern(3*mb)), iotest.ErrReader(broken)), func(err error) bool { return errors.Is(err, broken) }},
		"a full disk": {Options{Dir: ".", DiskBytes: mb, Wait: time.Millisecond}, 8 * mb, bytes.NewReader(pattern(4 * mb)), func(err error) bool {
			var full *Error
			return errors.As(err, &full) && strings.Contains(err.Error(), "artifacts.disk_bytes") && strings.Contains(err.Error(), "limits.memory")
		}},
		"no folder": {Options{Wait: time.Millisecond}, 8 * mb, bytes.NewReader(pattern(4 * mb)), func(err error) bool {
			var full *Error
			return errors.As(err, &full) && full.Limit == 2*mb && strings.Contains(err.Error(), "raise limits.memory") && strings.Contains(err.Error(), "artifacts.dir")
		}},
		"a folder that is not there": {Options{Dir: "/nowhere/at/all", Wait: time.Millisecond}, 8 * mb, bytes.NewReader(pattern(4 * mb)), func(err error) bool {
			return strings.Contains(err.Error(), "artifacts.dir") && !strings.Contains(err.Error(), "nowhere")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			o := test.options
			o.Limit, o.SpillAt, o.Linger = 2*mb, 256<<10, -1
			if o.Dir == "." {
				o.Dir = t.TempDir()
			}
			p := NewPool(o)
			defer p.Close()
			if _, err := many.Seek(0, io.SeekStart); err != nil {
				t.Fatal(err)
			}
			b := p.Account("a").NewBuffer(t.Context(), test.limit)
			err := b.Fill(test.r, -1)
			if !test.check(err) {
				t.Errorf("%v", err)
			}
			if _, again := b.Write([]byte("x")); again == nil && !errors.Is(err, broken) {
				t.Error("it takes more")
			}
			b.Drop()
			b.Drop()
			want(t, p, Usage{})
		})
	}
}

// Where there is no folder, a large message waits for memory, and gets it.
func TestBufferWithoutFiles(t *testing.T) {
	p := NewPool(Options{Limit: 32 * mb, SpillAt: mb})
	data := pattern(10 * mb)
	take(t, p.Account("a"), data, int64(len(data)), bytes.NewReader(data)).Release()
	want(t, p, Usage{})
}

// Messages in reception take no memory where there is none: they go to files.
func TestNoRoomIsAFile(t *testing.T) {
	p := NewPool(Options{Limit: mb, Dir: t.TempDir(), Linger: -1})
	defer p.Close()
	full := p.Account("full").Hold()
	for name, n := range map[string]int64{"x": mb / 2, "y": mb / 4} { // a quarter is for calls
		h := p.Account(name).Hold()
		if err := h.Grow(t.Context(), n); err != nil {
			t.Fatal(err)
		}
		defer h.Release()
	}
	if full.TryGrow(Free + 1) {
		t.Fatal("there is room")
	}
	b := p.Account("a").NewBuffer(t.Context(), mb)
	if err := b.Fill(bytes.NewReader(pattern(200_000)), -1); err != nil {
		t.Fatal(err)
	}
	block, err := b.Block()
	if err != nil {
		t.Fatal(err)
	}
	if !block.InFile() {
		t.Error("it is in memory")
	}
	block.Release()
}

// A block is whose call it is of, until that ends.
func TestScope(t *testing.T) {
	p := NewPool(Options{Limit: 64 * mb, SpillAt: mb, Dir: t.TempDir(), Linger: -1})
	defer p.Close()
	data := pattern(3 * mb)
	receive := func(ctx context.Context) []byte {
		b := p.Account("a").NewBuffer(ctx, 8*mb)
		if err := b.Fill(bytes.NewReader(data), -1); err != nil {
			t.Fatal(err)
		}
		block, err := b.Block()
		if err != nil {
			t.Fatal(err)
		}
		all, err := block.Open(ctx)
		if err != nil {
			t.Fatal(err)
		}
		return block.Deliver(ctx, all[1000:2*mb])
	}
	ctx, scope := WithScope(t.Context())
	part := receive(context.WithoutCancel(ctx))
	if !bytes.Equal(part, data[1000:2*mb]) {
		t.Error("other bytes came")
	}
	want(t, p, Usage{Memory: 3 * mb, Disk: 3 * mb})
	if !scope.Ends(part[10:20]) || scope.Ends([]byte("x")) {
		t.Error("it is not known what ends with the scope")
	}
	scope.End()
	scope.End()
	want(t, p, Usage{})
	// Without a scope, and with one that has ended, what comes is a copy.
	for _, ctx := range []context.Context{t.Context(), ctx} {
		if part := receive(ctx); !bytes.Equal(part, data[1000:2*mb]) {
			t.Error("other bytes came")
		}
		want(t, p, Usage{})
	}
}

// A mapping stays readable for a while, so that a goroutine that is late reads its
// own bytes; memory is given back at once.
func TestLinger(t *testing.T) {
	if !mapsFiles {
		t.Skip("this system does not map files")
	}
	p := NewPool(Options{Limit: 64 * mb, SpillAt: mb, Dir: t.TempDir(), Linger: time.Hour})
	data := pattern(3 * mb)
	block := take(t, p.Account("a"), data, -1, bytes.NewReader(data))
	late, err := block.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	block.Release()
	want(t, p, Usage{Disk: 3 * mb})
	if !bytes.Equal(late, data) {
		t.Error("other bytes are there")
	}
	p.Close()
	want(t, p, Usage{})

	p = NewPool(Options{Limit: 64 * mb, SpillAt: mb, Dir: t.TempDir(), Linger: time.Millisecond})
	defer p.Close()
	take(t, p.Account("a"), data, -1, bytes.NewReader(data)).Release()
	for end := time.Now().Add(30 * time.Second); p.Usage().Disk > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the file stays")
		}
	}
}

// No name leads to a message, and no other user reads it.
func TestFileIsPrivate(t *testing.T) {
	if !mapsFiles {
		t.Skip("this system cannot remove an open file")
	}
	dir := t.TempDir()
	p := NewPool(Options{Limit: 64 * mb, SpillAt: mb, Dir: dir})
	defer p.Close()
	b := p.Account("a").NewBuffer(t.Context(), 8*mb)
	defer b.Drop()
	if err := b.Fill(bytes.NewReader(pattern(3*mb)), -1); err != nil {
		t.Fatal(err)
	}
	if b.file == nil {
		t.Fatal("there is no file")
	}
	info, err := b.file.f.Stat()
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*")); len(left) != 0 {
		t.Errorf("it has a name: %v", left)
	}
}

// A message that is in no scope and small costs no more than reading it.
func BenchmarkSmall(b *testing.B) {
	p := NewPool(Options{})
	a := p.Account("a")
	data := pattern(2000)
	r := bytes.NewReader(data)
	b.Run("bare", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			r.Reset(data)
			buf := make([]byte, firstBytes)
			if n, err := io.ReadFull(r, buf); n != len(data) {
				b.Fatal(err)
			}
		}
	})
	b.Run("buffer", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			r.Reset(data)
			buf := a.NewBuffer(b.Context(), mb)
			if err := buf.Fill(r, -1); err != nil {
				b.Fatal(err)
			}
			block, err := buf.Block()
			if err != nil {
				b.Fatal(err)
			}
			if got := block.Deliver(b.Context(), data); len(got) != len(data) {
				b.Fatal(len(got))
			}
		}
	})
	b.Run("hold", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			h := a.Hold()
			if err := h.Grow(b.Context(), 2000); err != nil {
				b.Fatal(err)
			}
			h.Release()
		}
	})
}

// What one call holds another takes over: a call that an agent comes back for.
func TestHand(t *testing.T) {
	p := NewPool(Options{Limit: 16 * mb, SpillAt: mb, Dir: t.TempDir(), Linger: -1})
	defer p.Close()
	data := pattern(3 * mb)
	receive := func() (part []byte, from *Scope) {
		ctx, from := WithScope(t.Context())
		b := p.Account("a").NewBuffer(ctx, 8*mb)
		if err := b.Fill(bytes.NewReader(data), -1); err != nil {
			t.Fatal(err)
		}
		block, err := b.Block()
		if err != nil {
			t.Fatal(err)
		}
		all, err := block.Open(ctx)
		if err != nil {
			t.Fatal(err)
		}
		return block.Deliver(ctx, all), from
	}
	to, scope := WithScope(t.Context())
	part, from := receive()
	part = from.Hand(to, part)
	from.End()
	if !scope.Ends(part) || !bytes.Equal(part, data) {
		t.Error("it is not taken over")
	}
	scope.End()
	for _, to := range []context.Context{to, t.Context(), WithoutScope(to)} { // of which none holds anything
		part, from := receive()
		if part = from.Hand(to, part); !bytes.Equal(part, data) {
			t.Error("other bytes came")
		}
	}
	want(t, p, Usage{})
}

// What a call has made of a block that takes a turn of its own is collected before
// the next one's turn.
func TestTurnsCollect(t *testing.T) {
	p := NewPool(Options{Limit: 8 * mb, SpillAt: mb, Dir: t.TempDir(), Linger: -1})
	defer p.Close()
	forced := func(size int) uint32 {
		data := pattern(size)
		block := take(t, p.Account("a"), data, int64(size), bytes.NewReader(data))
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		block.Release()
		runtime.ReadMemStats(&after)
		return after.NumForcedGC - before.NumForcedGC
	}
	if n := forced(2 * mb); n != 0 {
		t.Errorf("%d collections after a block among others", n)
	}
	if n := forced(3 * mb); n == 0 {
		t.Error("no collection after a block that had a turn of its own")
	}
}
