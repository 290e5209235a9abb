package syslog

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/weir-mcp/weir/internal/audit"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/net/address"
)

// Bounds of a Forwarder.
const (
	maxQueue     = 8192    // lines that wait
	maxBytes     = 8 << 20 // their bytes
	maxMessage   = 8 << 10 // receivers cut longer ones; a record without args and selector is shorter
	dialTimeout  = 10 * time.Second
	writeTimeout = 10 * time.Second
	firstRetry   = time.Second // after a failure, doubled after each further one
	lastRetry    = 30 * time.Second
	drainTime    = 2 * time.Second // for what waits when the log is closed
)

// Options configure a Forwarder.
type Options struct {
	// Network is "udp", "tcp" or "tls", and Address the HOST:PORT there. Without TLS, addresses must not be public.
	Network, Address string
	// TLS is of a tls connection; nil means the authorities of the system.
	TLS *tls.Config
	// OCSF sends events of OCSF in place of the log's own lines.
	OCSF bool
	// Version is the version of the program.
	Version string
	// Logger gets failures; nil discards them.
	Logger *slog.Logger

	retry, drain time.Duration // for tests, in place of firstRetry and drainTime
}

// A Forwarder sends lines to one collector. It is safe for concurrent use.
type Forwarder struct {
	o       Options
	host    string
	queue   chan []byte
	waiting atomic.Int64 // bytes in the queue
	sent    atomic.Int64
	dropped atomic.Int64

	mu     sync.Mutex // guards closed; held while a line is queued
	closed bool

	closing chan struct{}
	ended   chan struct{}
	ctx     context.Context // of connections; ends when Close stops waiting
	cancel  context.CancelFunc

	// Only run uses the fields below.
	conn   net.Conn
	gone   chan struct{} // closed when the collector has closed conn
	broken bool          // the last attempt failed, and the log says so
	told   int64         // dropped lines that the log has told
	buf    []byte
}

// New starts a Forwarder. The caller must close it.
func New(o Options) *Forwarder {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	o.retry, o.drain = cmp.Or(o.retry, firstRetry), cmp.Or(o.drain, drainTime)
	f := &Forwarder{o: o, queue: make(chan []byte, maxQueue), closing: make(chan struct{}), ended: make(chan struct{})}
	f.host, _ = os.Hostname()
	f.ctx, f.cancel = context.WithCancel(context.Background())
	go f.run()
	return f
}

// Add queues lines of the log. It copies them, and never waits.
func (f *Forwarder) Add(lines []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for line := range bytes.Lines(lines) {
		line = bytes.Clone(bytes.TrimRight(line, "\n"))
		if f.closed || f.waiting.Load()+int64(len(line)) > maxBytes {
			f.dropped.Add(1)
			continue
		}
		select {
		case f.queue <- line:
			f.waiting.Add(int64(len(line)))
		default:
			f.dropped.Add(1)
		}
	}
}

// Figures returns how many records were sent, and how many were not because the collector was slow or away.
func (f *Forwarder) Figures() (sent, dropped int64) { return f.sent.Load(), f.dropped.Load() }

// Close sends what waits, for two seconds at most, and counts the rest as dropped.
func (f *Forwarder) Close() {
	f.mu.Lock()
	was := f.closed
	f.closed = true
	f.mu.Unlock()
	if !was {
		close(f.closing)
		close(f.queue)
		stop := time.AfterFunc(f.o.drain, f.cancel)
		defer stop.Stop()
	}
	<-f.ended
	f.cancel()
}

// run sends lines until Close.
func (f *Forwarder) run() {
	defer close(f.ended)
	defer f.hangUp()
	for line := range f.queue {
		f.waiting.Add(-int64(len(line)))
		f.send(line)
	}
}

// send sends a line, until it is sent or the Forwarder is closed and has no more time.
func (f *Forwarder) send(line []byte) {
	message := f.message(line)
	for backoff := f.o.retry; ; backoff = min(2*backoff, lastRetry) {
		err := f.try(message)
		if err == nil {
			f.sent.Add(1)
			f.tell()
			return
		}
		f.hangUp()
		if f.ctx.Err() != nil {
			f.dropped.Add(1)
			return
		}
		if !f.broken {
			f.broken = true
			f.o.Logger.Warn("audit.syslog: the collector does not take records, and they wait", "address", f.o.Address, "err", err)
		}
		wait := time.NewTimer(backoff/2 + rand.N(backoff/2))
		select {
		case <-wait.C:
		case <-f.ctx.Done():
		case <-f.closing: // few attempts are left
			select {
			case <-f.ctx.Done():
			case <-time.After(f.o.retry / 10):
			}
		}
		wait.Stop()
	}
}

// tell logs that records are taken again, and how many were dropped meanwhile.
func (f *Forwarder) tell() {
	if dropped := f.dropped.Load(); f.broken || dropped > f.told {
		f.o.Logger.Warn("audit.syslog: the collector takes records again", "address", f.o.Address, "dropped", dropped-f.told)
		f.told = dropped
	}
	f.broken = false
}

// try writes a message to the connection, which it opens if there is none.
func (f *Forwarder) try(message []byte) error {
	if f.conn != nil {
		select {
		case <-f.gone:
			f.hangUp()
		default:
		}
	}
	if f.conn == nil {
		if err := f.dial(); err != nil {
			return err
		}
	}
	if err := f.conn.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		return err
	}
	stop := context.AfterFunc(f.ctx, func() { _ = f.conn.SetWriteDeadline(time.Now()) })
	defer stop()
	_, err := f.conn.Write(message)
	return err
}

// errPublic is the cause of a refusal to send records without TLS.
var errPublic = errors.New("records are not sent without TLS")

func (f *Forwarder) dial() (err error) {
	ctx, cancel := context.WithTimeout(f.ctx, dialTimeout)
	defer cancel()
	dialer := &net.Dialer{}
	if f.o.Network == "tls" {
		f.conn, err = (&tls.Dialer{NetDialer: dialer, Config: f.o.TLS}).DialContext(ctx, "tcp", f.o.Address)
	} else {
		dialer.Control = func(_, at string, _ syscall.RawConn) error {
			host, _, err := net.SplitHostPort(at)
			if ip, ok := address.ParseIP(host); err != nil || !ok || !address.Private(ip) && !ip.IsLoopback() {
				return fmt.Errorf("%w: %s is a public address, to which audit.syslog.url must lead with tls", errPublic, host)
			}
			return nil
		}
		f.conn, err = dialer.DialContext(ctx, f.o.Network, f.o.Address)
	}
	if err != nil {
		f.conn = nil
		return err
	}
	f.gone = make(chan struct{})
	if f.o.Network != "udp" {
		go func(c net.Conn, gone chan struct{}) { // ends with the connection; a collector says nothing
			defer close(gone)
			var none [512]byte
			for {
				if _, err := c.Read(none[:]); err != nil {
					return
				}
			}
		}(f.conn, f.gone)
	}
	return nil
}

// hangUp closes the connection, and waits for its reader.
func (f *Forwarder) hangUp() {
	if f.conn == nil {
		return
	}
	_ = f.conn.Close()
	if f.o.Network != "udp" {
		<-f.gone
	}
	f.conn = nil
}

// The priorities of messages: facility 13 (log audit) with the severities informational and warning.
const (
	informational = 13*8 + 6
	warning       = 13*8 + 4
)

// message returns a line as a message, with its length before it on a stream.
func (f *Forwarder) message(line []byte) []byte {
	if len(line) > maxMessage {
		for _, member := range []string{"args", "selector"} {
			if short, err := rawjson.Delete(line, member); err == nil {
				line = short
			}
		}
	}
	kind, at := rawjson.Text(rawjson.Get(line, "kind")), rawjson.Text(rawjson.Get(line, "time"))
	priority := informational
	if kind == "refusal" || kind == "dropped" || kind == "recovered" {
		priority = warning
	}
	if f.o.OCSF {
		line = audit.OCSF(line, f.o.Version)
	}
	f.buf = fmt.Appendf(f.buf[:0], "<%d>1 %s %s weir %d %s - %s", priority, timestamp(at), field(f.host, 255), os.Getpid(), field(kind, 32), line)
	if f.o.Network == "udp" {
		return f.buf
	}
	return append(append(strconv.AppendInt(nil, int64(len(f.buf)), 10), ' '), f.buf...)
}

// timestamp returns a time with the six digits of a second that RFC 5424 allows, "-" for none.
func timestamp(text string) string {
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return "-"
	}
	return at.UTC().Format("2006-01-02T15:04:05.000000Z")
}

// field returns a text as a field of the header: printable ASCII without spaces, "-" for none.
func field(text string, most int) string {
	out := make([]byte, 0, len(text))
	for i := 0; i < len(text) && len(out) < most; i++ {
		if c := text[i]; c > ' ' && c <= '~' {
			out = append(out, c)
		}
	}
	if len(out) == 0 {
		return "-"
	}
	return string(out)
}
