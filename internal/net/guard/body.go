package guard

import (
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/weir-mcp/weir/internal/limit/memory"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/jsonrpc"
)

// firstRead is the allocation for a body before any of it has arrived. A client that announces more
// has to send it first.
const firstRead = 256 << 10

// Of a body that is too large, so much more is read and forgotten, for so long:
// a client that writes all of it before it reads would otherwise find a closed
// connection in place of the reason.
const (
	drainBytes   = 64 << 20
	drainTimeout = 5 * time.Second
)

// ReadBody reads a request's whole body into buf, which it grows as needed, and
// returns the filled slice. A body of more than limit bytes is an error of
// KindTooLarge, of which RequestID knows the id. One that breaks off is of
// KindInvalidRequest. After either, the connection is closed, so that nothing of
// the rest is read as a request.
//
// Its bytes are counted in room, which the caller releases when it needs the body no more; nil
// counts nothing. Where there is no room, it waits, and the error is of KindMemory, of which
// RequestID knows the id as well.
//
// Bodies are read whole before anything is done with them: an answer that
// starts while its request still arrives deadlocks with clients that do not
// read before they have written.
func ReadBody(w http.ResponseWriter, r *http.Request, limit int64, buf []byte, room *memory.Hold) ([]byte, error) {
	drain := func() *jsonrpc.IDFinder {
		w.Header().Set("Connection", "close")
		// A connection that knows no deadline still has the bound of bytes.
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(drainTimeout))
		var finder jsonrpc.IDFinder
		_, _ = finder.Write(buf)
		_, _ = io.CopyN(&finder, r.Body, drainBytes)
		return &finder
	}
	tooLarge := func() ([]byte, error) { return buf[:0], tooLargeError(limit, drain()) }
	whole := func() ([]byte, error) {
		_ = r.Body.Close() // or net/http looks for more of it before it writes the response
		return buf, nil
	}
	buf = buf[:0]
	if r.Body == nil || r.Body == http.NoBody {
		return buf, nil
	}
	if r.ContentLength > limit {
		if r.Header.Get("Expect") != "" {
			r.Body = http.NoBody // the client waits for the word to send it
		}
		return tooLarge()
	}
	if want := min(r.ContentLength, firstRead); int64(cap(buf)) < want {
		if room.TryGrow(want) {
			buf = make([]byte, 0, want)
		}
	}
	for {
		if len(buf) == cap(buf) {
			if int64(len(buf)) == r.ContentLength {
				// The body has a length, and its end has arrived by now.
				return whole()
			}
			grown := max(2*cap(buf), 512)
			if r.ContentLength > 0 && (grown > firstRead || grown > int(r.ContentLength)) {
				// All of the rest at once: bodies that each had a part of their bytes would wait
				// for each other.
				grown = int(r.ContentLength)
			}
			if err := room.Grow(r.Context(), int64(grown)); err != nil {
				finder := drain()
				return buf[:0], &identified{mcp.NoRoom("the request's body", err), finder.ID()}
			}
			buf = append(make([]byte, 0, grown), buf...)
		}
		n, err := r.Body.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		if int64(len(buf)) > limit {
			return tooLarge()
		}
		if errors.Is(err, io.EOF) {
			return whole()
		}
		if err != nil {
			w.Header().Set("Connection", "close")
			var over *http.MaxBytesError
			if errors.As(err, &over) {
				var finder jsonrpc.IDFinder
				_, _ = finder.Write(buf)
				return buf[:0], tooLargeError(over.Limit, &finder)
			}
			return buf[:0], &mcp.Error{Kind: mcp.KindInvalidRequest, Message: "the request body broke off", Err: err}
		}
	}
}

// identified is an error about a request whose body was not kept.
type identified struct {
	error
	id jsonrpc.ID
}

func (e *identified) Unwrap() error { return e.error }

func tooLargeError(limit int64, finder *jsonrpc.IDFinder) error {
	return &identified{mcp.Errorf(mcp.KindTooLarge, "the request body is over the bound of %d bytes", limit), finder.ID()}
}

// RequestID returns the id of the request that ReadBody had no room for, "" where
// it had none or err is another error.
func RequestID(err error) jsonrpc.ID {
	var e *identified
	if errors.As(err, &e) {
		return e.id
	}
	return ""
}

// leaveBody has the answer of a request go out before its body is there, and the
// connection close with it. Call it before WriteHeader. Without it, net/http
// first reads the body, or 256 KB of it. A short one that announces its length
// is read: its client can use the connection again.
func leaveBody(w http.ResponseWriter, r *http.Request) {
	const short = 4 << 10
	if r.ContentLength < 0 || r.ContentLength > short {
		w.Header().Set("Connection", "close")
	}
}
