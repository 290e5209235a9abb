package api

import (
	"bytes"
	"context"
	"net/http"
	"time"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/store/natsstore"
	"github.com/weir-mcp/weir/internal/text"
	"github.com/weir-mcp/weir/mcp"
)

// Events are the events of all gateways that share a store. Their methods may be called concurrently.
type Events interface {
	// Before returns the number of the last batch that is older than a time, or 0.
	Before(ctx context.Context, at time.Time) (uint64, error)
	// Next returns the first batch of lines with a higher number; ok is false if there is none.
	Next(ctx context.Context, after uint64) (m natsstore.EventsMessage, ok bool, err error)
}

// eventsPause is how often a reader that follows looks for newer events.
const eventsPause = 500 * time.Millisecond

// eventful serves the events of a gateway.
type eventful struct{ a *API }

// routes are the routes about events.
func (f *eventful) routes() []route {
	return []route{{
		method: http.MethodGet, path: "events", right: mayOperate, summary: "The events of all gateways that share the store, as lines of JSON",
		query:  []parameter{{"since", "only events from this time on (RFC 3339)"}, {"follow", "1: these and all later events"}},
		stream: "application/x-ndjson", common: true, serve: f.events,
	}}
}

// events serves events: the events of the stream as lines of JSON, the oldest first.
//
//	since=TIME  only events from this time on (RFC 3339); without it, all that are kept
//	follow=1    until the client disconnects
func (f *eventful) events(w http.ResponseWriter, r *http.Request) error {
	a := f.a
	if a.o.Events == nil {
		return mcp.Errorf(mcp.KindNotFound, "this gateway keeps no stream of events: events: {stream: true} with a store makes one (docs/cluster.md)")
	}
	query := r.URL.Query()
	var since time.Time
	var err error
	if text := query.Get("since"); text != "" {
		if since, err = time.Parse(time.RFC3339, text); err != nil {
			return errSince(text)
		}
	}
	follow := false
	switch query.Get("follow") {
	case "", "0", "false":
	case "1", "true":
		follow = true
	default:
		return mcp.Errorf(mcp.KindInvalidParams, "follow=%s: it must be 1 or 0", text.Line(query.Get("follow"), 40))
	}
	away := func(err error) error {
		return mcp.Errorf(mcp.KindStoreUnavailable, "the events cannot be read; try again: %w", err)
	}
	after := uint64(0)
	if !since.IsZero() {
		if after, err = a.o.Events.Before(r.Context(), since); err != nil {
			return away(err)
		}
	}
	m, ok, err := a.o.Events.Next(r.Context(), after)
	if err != nil {
		return away(err)
	}
	ctx, control, end := openLines(a, w, r)
	defer end()
	for first := true; ; first = false {
		if ok {
			after = m.Seq
			_ = control.SetWriteDeadline(time.Now().Add(writeTime))
			for line := range bytes.Lines(m.Body) {
				if !since.IsZero() && earlier(line, since) {
					continue
				}
				if _, err := w.Write(line); err != nil {
					return nil // the reader has gone
				}
			}
		} else {
			if first || follow {
				_ = control.SetWriteDeadline(time.Now().Add(writeTime))
				if control.Flush() != nil {
					return nil
				}
			}
			if !follow {
				return nil
			}
			pause := time.NewTimer(eventsPause)
			select {
			case <-pause.C:
			case <-ctx.Done():
				pause.Stop()
				return nil
			}
		}
		if m, ok, err = a.o.Events.Next(ctx, after); err != nil && !follow {
			panic(http.ErrAbortHandler) // the reader must not take it for all of the events
		}
		if ctx.Err() != nil {
			return nil
		}
	}
}

func errSince(given string) error {
	return mcp.Errorf(mcp.KindInvalidParams, "since=%s: it must be a time such as 2027-01-01T08:00:00Z", text.Line(given, 40))
}

// earlier reports whether an event happened before a time. One that says no time did not.
func earlier(line []byte, at time.Time) bool {
	t, err := time.Parse(time.RFC3339Nano, rawjson.Text(rawjson.Get(line, "time")))
	return err == nil && t.Before(at)
}
