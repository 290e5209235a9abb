// Package stdio carries MCP over lines of text: one JSON-RPC message a line.
//
//	weir as a server    agent ──stdin──▶ Stream ──stdout──▶ agent
//	weir as a client    Process: child's stdin ◀── messages ──▶ child's stdout, stderr into a ring
//
// A Process runs in a process group of its own, so that ending it ends what it
// started, too. The package moves messages and knows nothing of what they say;
// mcp.Conn speaks JSON-RPC over it.
package stdio

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/weir-mcp/weir/jsonrpc"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/rawjson"
)

// Default bounds of one message, in bytes.
const (
	MaxFromAgent    = 10 << 20
	MaxFromUpstream = 256 << 20
)

// bufSize is the read buffer of a stream; a shorter message costs one copy.
const bufSize = 32 << 10

// Stream is an mcp.Stream over a reader and a writer of lines.
type Stream struct {
	r     *bufio.Reader
	w     io.Writer
	max   int
	skip  bool   // what is left of a line over the bound is still to be read
	whole bool   // half a response at the end does not count
	buf   []byte // of the writer
	close func() error
	once  sync.Once
}

var _ mcp.Stream = (*Stream)(nil)

// NewStream reads messages of at most max bytes from r and writes to w. Close
// calls closeFn, which should make a blocked Read return; it may be nil.
func NewStream(r io.Reader, w io.Writer, max int, closeFn func() error) *Stream {
	return &Stream{r: bufio.NewReaderSize(r, bufSize), w: w, max: max, close: closeFn}
}

// Read implements mcp.Stream. Empty lines are skipped. A line over the bound
// is an error of KindTooLarge; the next Read goes on behind it.
func (s *Stream) Read() ([]byte, error) {
	for s.skip {
		_, err := s.r.ReadSlice('\n')
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return nil, err
		}
		s.skip = err != nil
	}
	for {
		line, err := s.readLine()
		if err != nil && s.whole && half(line) {
			return nil, err
		}
		if len(bytes.TrimSpace(line)) > 0 {
			return line, nil // an error comes again with the next read
		}
		if err != nil {
			return nil, err
		}
	}
}

// half reports whether a text begins a response and breaks off.
func half(line []byte) bool {
	_, answer := jsonrpc.Salvage(line)
	return answer && rawjson.Valid(line) != nil
}

// readLine returns the next line without its end as a slice of its own.
func (s *Stream) readLine() ([]byte, error) {
	var long []byte
	for {
		part, err := s.r.ReadSlice('\n')
		if len(long)+len(part) > s.max {
			s.skip = err != nil // else the whole line has been read
			return nil, mcp.Errorf(mcp.KindTooLarge, "a message of more than %d bytes on a stdio stream", s.max)
		}
		if err == nil && long == nil {
			return bytes.Clone(bytes.TrimRight(part, "\r\n")), nil
		}
		long = append(long, part...)
		if err == nil || !errors.Is(err, bufio.ErrBufferFull) {
			return bytes.TrimRight(long, "\r\n"), err
		}
	}
}

// Write implements mcp.Stream. Line breaks between the tokens of msg are
// removed; JSON has none elsewhere.
func (s *Stream) Write(msg []byte) error {
	s.buf = append(rawjson.StripNewlines(s.buf[:0], msg), '\n')
	return s.flush()
}

// WriteAll writes several messages with one system call.
func (s *Stream) WriteAll(msgs [][]byte) error {
	s.buf = s.buf[:0]
	for _, m := range msgs {
		s.buf = append(rawjson.StripNewlines(s.buf, m), '\n')
	}
	return s.flush()
}

func (s *Stream) flush() error {
	_, err := s.w.Write(s.buf)
	if cap(s.buf) > 1<<20 {
		s.buf = nil // one large message must not pin its size for ever
	}
	if err != nil {
		return fmt.Errorf("stdio: %w", err)
	}
	return nil
}

// Close implements mcp.Stream.
func (s *Stream) Close() error {
	var err error
	s.once.Do(func() {
		if s.close != nil {
			err = s.close()
		}
	})
	return err
}
