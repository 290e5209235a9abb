package worker

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/weir-mcp/weir/internal/program/wire"
)

// Main runs one program and returns the exit code of the process.
func Main() int {
	if err := serve(os.Stdin, os.Stdout, walls{confine, limit}); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "weir: program worker:", err)
		return 1
	}
	return 0
}

// maxSource bounds the source and the input of a program together.
const maxSource = 256 << 20

// walls are around the process. Tests of the engine have none: they would be around the tests.
type walls struct {
	confine func() []string
	limit   func(wire.Begin) error
}

func serve(in io.Reader, out io.Writer, w walls) error {
	e, err := newEngine(out)
	if err != nil {
		return err
	}
	hello, err := json.Marshal(wire.Hello{Version: wire.Version, Walls: w.confine()})
	if err != nil {
		return err
	}
	if err := wire.Write(out, wire.Ready, 0, hello, nil); err != nil {
		return err
	}
	r := &reader{r: bufio.NewReader(in), most: maxSource}
	header, head, err := r.next()
	if err != nil {
		if err == io.EOF {
			return nil // it is not needed any more
		}
		return err
	}
	var begin wire.Begin
	if err := json.Unmarshal(head[:header.Head], &begin); err != nil || header.Kind != wire.Start || begin.Source < 0 || begin.Source > header.Body {
		return fmt.Errorf("%w: it starts no program", wire.ErrFrame)
	}
	body := head[header.Head:]
	if err := w.limit(begin); err != nil {
		return err
	}
	r.most = begin.Memory
	return e.serve(begin, string(body[:begin.Source]), string(body[begin.Source:]), func() (wire.Header, []byte, error) {
		header, all, err := r.next()
		if err != nil {
			return header, nil, err
		}
		return header, all[header.Head:], nil
	})
}

// A reader reads frames. Bytes that it returns are valid until the next call.
type reader struct {
	r    *bufio.Reader
	most int64
	buf  []byte
}

// keep is the size up to which a buffer is used for the next frame.
const keep = 1 << 20

// next returns a frame, its head before its body.
func (r *reader) next() (wire.Header, []byte, error) {
	header, err := wire.Read(r.r, r.most)
	if err != nil {
		return header, nil, err
	}
	n := header.Head + header.Body
	if cap(r.buf) > keep {
		r.buf = nil
	}
	if n > cap(r.buf) {
		r.buf = make([]byte, n)
	}
	_, err = io.ReadFull(r.r, r.buf[:n])
	return header, r.buf[:n], err
}
