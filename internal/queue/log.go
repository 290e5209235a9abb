package queue

import (
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

// tail keeps the newest bytes of a log.
type tail struct {
	max int

	mu   sync.Mutex // guards below
	buf  []byte
	seq  int64
	cut  bool
	last time.Time
}

// Write implements io.Writer. It never fails.
func (t *tail) Write(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.seq++
	t.last = time.Now()
	keep := p
	if len(keep) > t.max {
		keep = keep[len(keep)-t.max:]
		t.buf, t.cut = t.buf[:0], true
	}
	// Twice the bound is kept at most, so that moving it costs little.
	if len(t.buf)+len(keep) > 2*t.max {
		t.buf = append(t.buf[:0], t.buf[len(t.buf)-(t.max-min(t.max, len(keep))):]...)
		t.cut = true
	}
	t.buf = append(t.buf, keep...)
	return len(p), nil
}

// read returns the tail as valid UTF-8, and when it was last written to.
func (t *tail) read() (text string, seq int64, cut bool, last time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	b := t.buf
	cut = t.cut
	if len(b) > t.max {
		b, cut = b[len(b)-t.max:], true
	}
	if cut { // not from the middle of a character
		for i := 0; i < utf8.UTFMax && len(b) > 0 && !utf8.RuneStart(b[0]); i++ {
			b = b[1:]
		}
	}
	return strings.ToValidUTF8(string(b), "\uFFFD"), t.seq, cut, t.last
}
