package api

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"github.com/weir-mcp/weir/internal/host/serverlog"
	"github.com/weir-mcp/weir/internal/net/guard"
	"github.com/weir-mcp/weir/internal/text"
	"github.com/weir-mcp/weir/internal/text/visible"
	"github.com/weir-mcp/weir/mcp"
)

const (
	// defaultLines and maxLines bound the lines of one answer.
	defaultLines = 200
	maxLines     = 100_000
	// writeTime bounds the time in which a reader takes a written part.
	writeTime = 20 * time.Second
	// followPause is the time in which lines are gathered for one write.
	followPause = 20 * time.Millisecond
)

// Lines is the answer of logs and servers/{name}/log.
type Lines struct {
	Lines []serverlog.Line `json:"lines"`
}

// log serves logs and servers/{name}/log: the last lines as one JSON object, or with follow=1 these
// and all later ones as lines of JSON.
//
//	lines=N     the newest N lines; 200 without it
//	after=SEQ   only lines after this number
//	follow=1    until the client disconnects
func (a *API) log(w http.ResponseWriter, r *http.Request) error {
	name := r.PathValue("name")
	if name != "" {
		if err := a.check(name); err != nil {
			return err
		}
	}
	query := r.URL.Query()
	n, err := number(query.Get("lines"), defaultLines, maxLines)
	if err != nil {
		return mcp.Errorf(mcp.KindInvalidParams, "lines=%s: it must be a number from 0 to %d", text.Line(query.Get("lines"), 40), maxLines)
	}
	after, err := number(query.Get("after"), 0, 1<<62)
	if err != nil {
		return mcp.Errorf(mcp.KindInvalidParams, "after=%s: it must be the seq of a line", text.Line(query.Get("after"), 40))
	}
	// Lines that come after this number are left for the stream.
	last := a.o.Log.Last()
	found := a.o.Log.Lines(name, after, int(n))
	switch query.Get("follow") {
	case "", "0", "false":
		return write(w, Lines{append([]serverlog.Line{}, found...)})
	case "1", "true":
		a.follow(w, r, name, found, max(last, after))
		return nil
	}
	return mcp.Errorf(mcp.KindInvalidParams, "follow=%s: it must be 1 or 0", text.Line(query.Get("follow"), 40))
}

// number reads a number of a query.
func number(s string, absent, most uint64) (uint64, error) {
	if s == "" {
		return absent, nil
	}
	n, err := strconv.ParseUint(s, 10, 64)
	if err == nil && n > most {
		err = strconv.ErrRange
	}
	return n, err
}

// follow writes lines, and then those after a number, until the client or the API ends. The first
// lines may be newer than the number.
func (a *API) follow(w http.ResponseWriter, r *http.Request, name string, lines []serverlog.Line, seen uint64) {
	ctx, control, end := openLines(a, w, r)
	defer end()
	for {
		_ = control.SetWriteDeadline(time.Now().Add(writeTime))
		for _, l := range lines {
			raw, err := json.Marshal(l)
			if err != nil {
				return // cannot happen: weir's own type
			}
			if _, err := w.Write(append(visible.JSON(raw), '\n')); err != nil {
				return
			}
			seen = max(seen, l.Seq)
		}
		if control.Flush() != nil || a.o.Log.Wait(ctx, seen) != nil {
			return
		}
		pause := time.NewTimer(followPause)
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return
		}
		upTo := a.o.Log.Last()
		lines = a.o.Log.Lines(name, seen, maxLines)
		seen = max(seen, upTo)
	}
}

// openLines starts a response of lines of JSON. Its context ends with the client's connection, a
// drain or the API.
func openLines(a *API, w http.ResponseWriter, r *http.Request) (ctx context.Context, control *http.ResponseController, end func()) {
	h := w.Header()
	h.Set("Content-Type", "application/x-ndjson")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	control = http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Time{})
	lasting, release := guard.Lasting(r.Context())
	ctx, cancel := context.WithCancel(lasting)
	stop := context.AfterFunc(a.closing, cancel)
	return ctx, control, func() {
		stop()
		cancel()
		release()
	}
}
