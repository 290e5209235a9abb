package dispatch

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/limit/bounded"
)

// Scheme is the prefix of every handle.
const Scheme = "ddi://"

// ErrBody means that a result may contain a body, but that it cannot be extracted.
var ErrBody = errors.New("a body that cannot be taken out")

// ErrHandle means that the dispatcher does not have a ddi:// handle: it was used, has expired, was
// dropped for newer ones, or belongs to another session.
var ErrHandle = errors.New("unknown ddi:// handle")

// Defaults of Options.
const (
	defaultMaxBytes = 64 << 20
	defaultMaxCount = 64
	defaultTTL      = 10 * time.Minute
)

// Options limit the buffer. The zero value uses the defaults.
type Options struct {
	MaxBytes int           // total size; beyond it the oldest body is dropped, and a larger body is not stored
	MaxCount int           // number of bodies; beyond it the oldest is dropped
	TTL      time.Duration // lifetime of a body
	// Mark names the program that has the bodies, where several programs serve a session: handles start with
	// it. Nil is for one program.
	Mark func() string
}

// Dispatcher buffers bodies. It is safe for concurrent use. The owner must Close it when the session
// ends.
type Dispatcher struct {
	opts Options

	mu     sync.Mutex                   // guards below
	bodies *bounded.Map[string, []byte] // by token; nil until there is one: most sessions have none
	closed bool
	timer  *time.Timer // fires when the oldest body expires
}

// New returns an empty dispatcher.
func New(opts Options) *Dispatcher {
	if opts.MaxBytes <= 0 {
		opts.MaxBytes = defaultMaxBytes
	}
	if opts.MaxCount <= 0 {
		opts.MaxCount = defaultMaxCount
	}
	if opts.TTL <= 0 {
		opts.TTL = defaultTTL
	}
	return &Dispatcher{opts: opts}
}

// Close drops all bodies. It may be called more than once.
func (d *Dispatcher) Close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	if d.bodies != nil {
		d.bodies.Clear()
	}
	if d.timer != nil {
		d.timer.Stop()
	}
}

// Len returns the number of bodies in the buffer.
func (d *Dispatcher) Len() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.bodies == nil {
		return 0
	}
	return d.bodies.Len()
}

// take returns a body and removes it.
func (d *Dispatcher) take(token string) ([]byte, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.bodies == nil {
		return nil, false
	}
	return d.bodies.Take(token)
}

// keep buffers a copy of a body and returns its handle, or "" if it is too large.
func (d *Dispatcher) keep(data []byte) string {
	if len(data) > d.opts.MaxBytes {
		return ""
	}
	var secret [32]byte
	rand.Read(secret[:]) // never fails: crypto/rand ends the program instead
	token := base64.RawURLEncoding.EncodeToString(secret[:])
	if d.opts.Mark != nil {
		if mark := d.opts.Mark(); mark != "" {
			token = mark + "-" + token
		}
	}
	data = bytes.Clone(data)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return ""
	}
	if d.bodies == nil {
		d.bodies = bounded.New(bounded.Options[string, []byte]{MaxCount: d.opts.MaxCount, MaxBytes: int64(d.opts.MaxBytes), TTL: d.opts.TTL})
	}
	d.bodies.Put(token, data, int64(len(data)))
	d.arm()
	return Scheme + token
}

// arm sets the timer to the oldest body's end. The caller holds mu.
func (d *Dispatcher) arm() {
	after := d.bodies.Expire()
	switch {
	case after == 0 || d.closed:
	case d.timer == nil:
		d.timer = time.AfterFunc(after, d.tick)
	default:
		d.timer.Reset(after)
	}
}

func (d *Dispatcher) tick() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.arm()
}

// OnToolCall replaces an argument resource_url that is a ddi:// handle with body_data, the JSON
// text of the body, and invalidates the handle. It returns other arguments, such as http URLs,
// unchanged. The error wraps ErrHandle and names the fix.
func (d *Dispatcher) OnToolCall(arguments json.RawMessage) (json.RawMessage, error) {
	if !holds(arguments, "ddi:", ':') && !bytes.Contains(arguments, []byte(`\`)) {
		return arguments, nil
	}
	handle := strings.TrimSpace(rawjson.Text(rawjson.Get(arguments, "resource_url")))
	token, ok := strings.CutPrefix(handle, Scheme)
	if !ok {
		return arguments, nil
	}
	out, err := rawjson.Delete(arguments, "resource_url")
	if err != nil {
		return nil, fmt.Errorf("arguments: %w", err)
	}
	data, ok := d.take(token)
	if !ok {
		return nil, fmt.Errorf("%w %.60s: a handle works once, in the session whose call made it, for %s; call the resource tool again for a new one", ErrHandle, handle, d.opts.TTL)
	}
	out, err = rawjson.Set(out, "body_data", rawjson.Quote(string(data)))
	if err != nil {
		return nil, fmt.Errorf("arguments: %w", err)
	}
	return out, nil
}

// holds reports whether data contains word. It searches for the word's rare byte first, which skips
// large texts without the word several times faster than bytes.Contains.
func holds(data []byte, word string, rare byte) bool {
	at := strings.IndexByte(word, rare)
	for i := at; i < len(data); i++ {
		n := bytes.IndexByte(data[i:], rare)
		if n < 0 {
			return false
		}
		i += n
		if start := i - at; len(data)-start >= len(word) && string(data[start:start+len(word)]) == word {
			return true
		}
	}
	return false
}
