package streamable

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/limit/memory"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/jsonrpc"
)

// position records how far a resumable stream has been read, and how to make its next connection.
type position struct {
	lastID   string
	retry    time.Duration // the retry time of the server
	hasRetry bool
	attempts int    // consecutive connections without an event
	half     []byte // an incomplete event, or nil
}

// delay returns how long to wait before the next connection. It starts with the retry time of the
// server and grows.
func (p *position) delay() time.Duration {
	backoff := firstBackoff
	for i := 1; i < p.attempts && backoff < maxBackoff; i++ {
		backoff *= 2
	}
	switch backoff = min(backoff, maxBackoff); {
	case !p.hasRetry:
		return backoff
	case p.attempts <= 1:
		return max(p.retry, minBackoff)
	}
	return max(p.retry, backoff)
}

// read hands the messages of one connection's stream to take until take returns true or the stream
// ends. take releases the block that it gets with a message; the block is nil if the message is not
// counted.
func (c *Client) read(ctx context.Context, body io.Reader, pos *position, take func(data []byte, block *memory.Block) (done bool)) (done bool, err error) {
	began := time.Now()
	pos.attempts++
	pos.half = nil
	r := NewEventReader(body, int(c.opts.MaxResponse))
	if c.opts.Room != nil {
		r.Count(ctx, c.opts.Room)
	}
	for {
		ev, err := r.Next()
		data := ev.Data
		if err == nil && ev.Block != nil {
			if data, err = ev.Block.Open(ctx); err != nil {
				ev.Block.Release()
			}
		}
		if err != nil {
			if time.Since(began) >= minConnected {
				pos.attempts = min(pos.attempts, 1)
			}
			return false, err
		}
		if ev.Truncated && rawjson.Valid(data) != nil {
			pos.half = bytes.Clone(data[:min(len(data), maxHalf)]) // resumption asks for the event again
			ev.Block.Release()
			continue
		}
		if ev.ID != "" {
			if len(ev.ID) > 4<<10 {
				ev.Block.Release()
				return false, errEventID
			}
			pos.lastID = ev.ID
		}
		if ev.HasRetry {
			pos.retry, pos.hasRetry = ev.Retry, true
		}
		if len(data) == 0 || (ev.Name != "" && ev.Name != "message") {
			ev.Block.Release()
			continue
		}
		pos.attempts = 0
		if take(data, ev.Block) {
			return true, nil
		}
		pos.attempts = 1
	}
}

// errHalf means that a stream ended regularly within a message.
var errHalf = errors.New("it breaks off")

// halved reports whether an unreadable text is the response to the call.
func (cl *clientCall) halved(text []byte) bool {
	id, answer := jsonrpc.Salvage(text)
	return answer && (id == cl.idRaw || id == "")
}

var errEventID = errors.New("an event id of more than 4096 bytes")

// stream reads the SSE response to a call up to the call's own response. In the legacy era it
// resumes a stream that ends earlier, if an event had an id.
func (cl *clientCall) stream(resp *http.Response, out outgoing) (result json.RawMessage, _ *http.Response, err error) {
	c := cl.c
	var pos position
	take := func(data []byte, block *memory.Block) (done bool) {
		result, done, err = cl.receive(data, block)
		return done
	}
	for {
		done, broken := c.read(cl.httpCtx, resp.Body, &pos, take)
		if done {
			return result, resp, err
		}
		resp.Body.Close()
		switch {
		case cl.httpCtx.Err() != nil:
			return nil, nil, c.transportError(broken)
		case errors.Is(broken, ErrEventTooLarge):
			return nil, nil, c.tooLarge("sent a message of")
		case errors.As(broken, new(*memory.Error)):
			return nil, nil, c.halfway(out.method, broken)
		case errors.Is(broken, io.EOF) && (out.modern || pos.lastID == "") && cl.halved(pos.half):
			return nil, nil, c.unreadable(out.method, errHalf)
		case out.modern || pos.lastID == "" || errors.Is(broken, errEventID):
			return nil, nil, &mcp.Error{
				Kind: mcp.KindUpstreamUnavailable, Err: broken,
				Message: c.who + " ended the stream of " + out.method + " before it answered",
			}
		}
		if resp, err = cl.resume(out, &pos); err != nil {
			return nil, nil, err
		}
	}
}

// resume asks for the rest of a call's stream.
func (cl *clientCall) resume(out outgoing, pos *position) (*http.Response, error) {
	c := cl.c
	for {
		if pos.attempts >= maxAttempts {
			return nil, mcp.Errorf(mcp.KindUpstreamUnavailable, "%s ended the stream of %s before it answered, and %d attempts to resume it brought nothing", c.who, out.method, maxAttempts)
		}
		if err := sleep(cl.httpCtx, pos.delay()); err != nil {
			return nil, err
		}
		resp, err := c.open(cl.httpCtx, pos.lastID)
		switch {
		case err == nil:
			return resp, nil
		case cl.httpCtx.Err() != nil:
			return nil, err
		case !mayPass(err):
			// The GET was refused, but the server did get the call. So the error must not have the
			// causes of err.
			return nil, mcp.Errorf(mcp.KindUpstreamUnavailable, "%s ended the stream of %s before it answered, and does not resume it: %v", c.who, out.method, err)
		}
		pos.attempts++
	}
}

// open sends a GET for a stream, from the beginning or after an event.
func (c *Client) open(ctx context.Context, lastID string) (*http.Response, error) {
	st := c.wire.Load()
	header := st.get
	if lastID != "" || c.http.Jar != nil {
		header = header.Clone()
	}
	if lastID != "" {
		header[HeaderLastEventID] = []string{lastID}
	}
	resp, err := c.do(ctx, http.MethodGet, header)
	if err != nil {
		return nil, c.transportError(err)
	}
	if resp.StatusCode != http.StatusOK {
		// A 404 may also mean that there is no GET here, so it does not end the session; run of
		// listening can tell.
		_, err := c.refused(resp, outgoing{method: "a GET stream"}, "")
		return nil, err
	}
	if t := mediaType(resp.Header.Get("Content-Type")); t != ContentSSE {
		discard(resp)
		return nil, mcp.Errorf(mcp.KindUpstreamProtocol, "%s answered a GET stream with the content type %.80q: %w", c.who, t, mcp.ErrRefused)
	}
	return resp, nil
}

// mayPass reports whether another attempt to open a stream may succeed.
func mayPass(err error) bool {
	if errors.Is(err, mcp.ErrRefused) {
		return false
	}
	k, ok := mcp.KindOf(err)
	return ok && k.Info().Retryable
}

func notFound(err error) bool {
	var s *StatusError
	return errors.As(err, &s) && s.Status == http.StatusNotFound
}

// drain reads a finished stream to its end in the background for a short time, so that its
// connection can be reused.
func (c *Client) drain(cl *clientCall, resp *http.Response) {
	end := func() { cl.cancel(nil) }
	if !c.spawn(func() {
		timer := time.AfterFunc(drainTime, end)
		stop := context.AfterFunc(c.ctx, end)
		_, _ = io.CopyN(io.Discard, resp.Body, drainBytes)
		resp.Body.Close()
		timer.Stop()
		stop()
		end()
	}) {
		resp.Body.Close()
		end()
	}
}

// sleep waits for d, or returns the error of ctx when it ends.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
