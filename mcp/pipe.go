package mcp

import (
	"bytes"
	"io"
	"sync"
)

// pipeLen is how many messages wait in one direction of a Pipe.
const pipeLen = 64

// Pipe returns the two ends of an in-memory stream: one end reads the messages that the other end
// writes. Closing either end ends both after pending messages have been read. Tests and servers
// within this process use it as a transport.
func Pipe() (Stream, Stream) {
	ab, ba := make(chan []byte, pipeLen), make(chan []byte, pipeLen)
	shared := &pipeEnd{done: make(chan struct{})}
	return &pipeStream{in: ba, out: ab, end: shared}, &pipeStream{in: ab, out: ba, end: shared}
}

type pipeEnd struct {
	once sync.Once
	done chan struct{}
}

type pipeStream struct {
	in  <-chan []byte
	out chan<- []byte
	end *pipeEnd
}

var (
	_ Stream      = (*pipeStream)(nil)
	_ batchStream = (*pipeStream)(nil)
)

func (p *pipeStream) Read() ([]byte, error) {
	select {
	case msg := <-p.in:
		return msg, nil
	default:
	}
	select {
	case msg := <-p.in:
		return msg, nil
	case <-p.end.done:
		select {
		case msg := <-p.in:
			return msg, nil
		default:
			return nil, io.EOF
		}
	}
}

func (p *pipeStream) Write(msg []byte) error {
	select {
	case <-p.end.done:
		return io.ErrClosedPipe
	default:
	}
	select {
	case p.out <- bytes.Clone(msg):
		return nil
	case <-p.end.done:
		return io.ErrClosedPipe
	}
}

// WriteAll implements batchStream.
func (p *pipeStream) WriteAll(msgs [][]byte, wait bool) (bool, error) {
	if wait {
		for _, msg := range msgs {
			if err := p.Write(msg); err != nil {
				return true, err
			}
		}
		return true, nil
	}
	if len(msgs) != 1 { // there may be room for some of them only
		return false, nil
	}
	select {
	case <-p.end.done:
		return false, io.ErrClosedPipe
	default:
	}
	select {
	case p.out <- bytes.Clone(msgs[0]):
		return true, nil
	default:
		return false, nil
	}
}

func (p *pipeStream) Close() error {
	p.end.once.Do(func() { close(p.end.done) })
	return nil
}
