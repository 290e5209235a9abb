package stdio

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/limit/memory"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/jsonrpc"
)

// Default bounds of one message, in bytes.
const (
	maxFromAgent    = 10 << 20
	maxFromUpstream = 256 << 20
)

// endlessBytes is how long the rest of a line over the bound may be, in addition to four times the
// bound. A longer one is taken as endless and ends the stream: reading it to no end costs a processor.
const endlessBytes = 16 << 20

var errEndless = errors.New("a line without an end")

// bufSize is the read buffer of a stream; a shorter message costs one copy.
const bufSize = 32 << 10

// Stream is an mcp.Stream over a reader and a writer of lines.
type Stream struct {
	r     *bufio.Reader
	w     io.Writer
	pipe  *pipe // w; nil if a write to it may block
	max   int
	room  *memory.Account // counts the bytes of messages; may be nil
	skip  bool            // the rest of a line over the bound is still to be read
	past  int64           // bytes of that rest so far
	lost  *lostLine       // the line being skipped; else nil
	child bool            // the reader is a child's stdout: an incomplete response at its end is no message
	buf   []byte          // the write buffer
	close func() error
	once  sync.Once
}

var _ mcp.Stream = (*Stream)(nil)

// NewStream reads messages of at most max bytes from r and writes to w. Close calls closeFn, which
// should make a blocked Read return; it may be nil.
func NewStream(r io.Reader, w io.Writer, max int, closeFn func() error) *Stream {
	return &Stream{r: bufio.NewReaderSize(r, bufSize), w: w, pipe: pipeOf(w), max: max, close: closeFn}
}

// Count makes the stream count messages in room and receive large messages into files. It must be
// called before the first Read.
func (s *Stream) Count(room *memory.Account) { s.room = room }

// Read implements mcp.Stream. It skips empty lines. For a line over the bound it returns an error
// of KindTooLarge that wraps an *mcp.LostMessage, and the next Read continues after that line. A line
// without an end ends the stream.
func (s *Stream) Read() ([]byte, error) {
	line, block, err := s.ReadBlock()
	if err != nil || block == nil {
		return line, err
	}
	return open(block)
}

// open returns the bytes of a message. They belong to the caller.
func open(block *memory.Block) ([]byte, error) {
	ctx := context.Background() // the Pool bounds the time
	data, err := block.Open(ctx)
	if err != nil {
		block.Release()
		return nil, mcp.NoRoom("a message on a stdio stream", err)
	}
	return block.Deliver(ctx, data), nil
}

// ReadBlock is Read with the Block of a large message, which the caller releases. line is nil if
// the message is in a file.
func (s *Stream) ReadBlock() (line []byte, block *memory.Block, err error) {
	for s.skip {
		part, err := s.r.ReadSlice('\n')
		if s.lost != nil {
			s.lost.skim.Feed(part)
		}
		if s.past += int64(len(part)); errors.Is(err, bufio.ErrBufferFull) && s.past > 4*int64(s.max)+endlessBytes {
			return nil, nil, fmt.Errorf("%w: more than %d bytes", errEndless, int64(s.max)+s.past-int64(len(part)))
		}
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return nil, nil, err
		}
		s.skip = err != nil
	}
	if lost := s.lost; lost != nil {
		s.lost = nil
		return nil, nil, lost.error()
	}
	for {
		line, block, err := s.readLine()
		inFile := block != nil && block.InFile()
		switch {
		case line == nil && !inFile:
			return nil, nil, err
		case err != nil && s.child && (inFile && halfFile(block) || !inFile && half(line)):
			block.Release()
			return nil, nil, err
		case inFile || len(bytes.TrimSpace(line)) > 0:
			return line, block, nil // the next read returns the error again
		}
		block.Release()
		if err != nil {
			return nil, nil, err
		}
	}
}

// halfFile reports whether a message in a file is an incomplete response.
func halfFile(block *memory.Block) bool {
	line, err := block.Open(context.Background())
	return err == nil && half(line)
}

// half reports whether a text is an incomplete response.
func half(line []byte) bool {
	_, answer := jsonrpc.Salvage(line)
	return answer && rawjson.Valid(line) != nil
}

// readLine returns the next line without its end, or the Block of a large one, as ReadBlock does. A
// line may come together with an error. Both are nil if there is no line.
func (s *Stream) readLine() (_ []byte, _ *memory.Block, err error) {
	var long *memory.Buffer
	for {
		part, err := s.r.ReadSlice('\n')
		if long == nil && err == nil && len(part) <= s.max {
			return append(make([]byte, 0, len(part)), bytes.TrimRight(part, "\r\n")...), nil, nil
		}
		if long == nil {
			long = s.room.NewBuffer(context.Background(), int64(s.max))
		}
		line := part
		if err == nil {
			line = bytes.TrimRight(part, "\r\n")
		}
		werr := error(memory.ErrTooLarge)
		if long.Len()+int64(len(part)) <= int64(s.max) {
			_, werr = long.Write(line)
		}
		if werr != nil {
			return nil, nil, s.lose(long, part, werr, err != nil)
		}
		if err == nil || !errors.Is(err, bufio.ErrBufferFull) {
			block, berr := long.Block()
			if berr != nil {
				return nil, nil, s.lose(long, nil, berr, false)
			}
			if block.InFile() {
				return nil, block, err
			}
			data, _ := block.Open(context.Background()) // returns at once for a message in memory
			return data, block, err
		}
	}
}

// lostLine is a line that is read to its end to find its id.
type lostLine struct {
	skim jsonrpc.Skimmer
	why  error
}

func (l *lostLine) error() error {
	k, _ := mcp.KindOf(l.why)
	return &mcp.Error{Kind: k, Message: l.why.Error(), Err: &mcp.LostMessage{Head: l.skim.Head, Err: l.why}}
}

// lose returns the error for a line that does not fit in memory. part is the latest piece, and more
// says that further pieces may follow.
func (s *Stream) lose(long *memory.Buffer, part []byte, why error, more bool) error {
	s.skip, s.past = more, 0
	if errors.Is(why, memory.ErrTooLarge) {
		why = mcp.Errorf(mcp.KindTooLarge, "a message of more than %d bytes on a stdio stream", s.max)
	} else {
		why = mcp.NoRoom("a message on a stdio stream", why)
	}
	s.lost = &lostLine{why: why}
	// If reading fails, the owner stays unknown and the connection ends.
	_ = long.Each(s.lost.skim.Feed)
	s.lost.skim.Feed(part)
	long.Drop()
	_, _, err := s.ReadBlock()
	return err
}

// pieceBytes is how much of a message is written at once, so that no copy of a large one is made.
const pieceBytes = 256 << 10

// Write implements mcp.Stream. Line breaks between the tokens of msg are
// removed; JSON has none elsewhere.
func (s *Stream) Write(msg []byte) error {
	for ; len(msg) > pieceBytes; msg = msg[pieceBytes:] {
		s.buf = rawjson.StripNewlines(s.buf[:0], msg[:pieceBytes])
		if err := s.flush(); err != nil {
			return err
		}
	}
	s.buf = append(rawjson.StripNewlines(s.buf[:0], msg), '\n')
	return s.flush()
}

// WriteAll writes several messages with one system call, and returns true. If wait is false, it writes
// only if the other side's pipe takes all of it at once. Otherwise it writes nothing and returns
// false.
func (s *Stream) WriteAll(msgs [][]byte, wait bool) (bool, error) {
	if !wait && s.pipe == nil {
		return false, nil
	}
	size := 0
	for _, m := range msgs {
		size += len(m)
	}
	if size > pieceBytes {
		if !wait {
			return false, nil
		}
		for _, m := range msgs {
			if err := s.Write(m); err != nil {
				return true, err
			}
		}
		return true, nil
	}
	s.buf = s.buf[:0]
	for _, m := range msgs {
		s.buf = append(rawjson.StripNewlines(s.buf, m), '\n')
	}
	if !wait {
		return s.pipe.tryWrite(s.buf), nil
	}
	return true, s.flush()
}

func (s *Stream) flush() error {
	_, err := s.w.Write(s.buf)
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
