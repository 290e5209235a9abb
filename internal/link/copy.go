package link

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
)

// IsStream reports whether a response is an event stream.
func IsStream(resp *http.Response) bool {
	return strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream")
}

// Lasts reports whether a response is written over time: an event stream, or lines of JSON that follow a log.
func Lasts(resp *http.Response) bool {
	return IsStream(resp) || strings.HasPrefix(resp.Header.Get("Content-Type"), "application/x-ndjson")
}

// WriteLimit bounds the time in which a client must read one write.
const WriteLimit = 30 * time.Second

// pieces are buffers of Copy.
var pieces = sync.Pool{New: func() any { b := make([]byte, 32<<10); return &b }}

// Copy writes a response of another node, each part as it comes. It closes the body of the response and
// returns the error of reading it.
func Copy(w http.ResponseWriter, resp *http.Response) error {
	defer func() { _ = resp.Body.Close() }()
	h := w.Header()
	for name, values := range resp.Header {
		switch name {
		case "Connection", "Keep-Alive", "Transfer-Encoding", HeaderOwner, headerUnreached:
			continue
		case "Vary": // with the ones of this node
			h[name] = append(h[name], values...)
			continue
		}
		h[name] = values
	}
	w.WriteHeader(resp.StatusCode)
	stream := Lasts(resp)
	rc := http.NewResponseController(w)
	if stream {
		_ = rc.SetReadDeadline(time.Time{})
		_ = rc.Flush()
	}
	piece := pieces.Get().(*[]byte)
	defer pieces.Put(piece)
	buf := *piece
	for {
		count, err := resp.Body.Read(buf)
		if count > 0 {
			_ = rc.SetWriteDeadline(time.Now().Add(WriteLimit))
			if _, failed := w.Write(buf[:count]); failed != nil {
				return nil // the client is gone
			}
			if stream {
				_ = rc.Flush()
			}
		}
		if err != nil {
			_ = rc.SetWriteDeadline(time.Time{})
			if errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
				return nil
			}
			return err
		}
	}
}

// Tunnel copies bytes between the client of a request and the node that has answered it with another protocol, until
// one of them or ctx ends.
func Tunnel(ctx context.Context, w http.ResponseWriter, resp *http.Response) error {
	defer func() { _ = resp.Body.Close() }()
	far, ok := resp.Body.(io.ReadWriter)
	if !ok {
		return errors.New("the other node has switched protocols without a connection")
	}
	near, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return fmt.Errorf("the connection of the client cannot be upgraded: %w", err)
	}
	defer func() { _ = near.Close() }()
	defer context.AfterFunc(ctx, func() { _ = near.Close() })()
	_ = near.SetDeadline(time.Time{})
	head := bufio.NewWriter(near)
	_, _ = fmt.Fprintf(head, "HTTP/1.1 %s\r\n", resp.Status) // Flush has the error
	_ = resp.Header.Write(head)
	_, _ = head.WriteString("\r\n")
	if head.Flush() != nil {
		return nil // the client is gone
	}
	back := make(chan struct{})
	go func() { // ends when one of the two connections is closed
		defer close(back)
		_, _ = io.Copy(near, far)
		_ = near.Close()
	}()
	_, _ = io.Copy(far, buffered.Reader)
	_ = resp.Body.Close()
	<-back
	return nil
}
