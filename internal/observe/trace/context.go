package trace

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"math/rand/v2"
	"net/http"
	"strings"

	"github.com/weir-mcp/weir/internal/json/rawjson"
)

// Lengths of W3C Trace Context.
const (
	parentLength = 55  // of a traceparent of version 00
	maxState     = 512 // of a tracestate
)

// origin is the trace context of a request, as its sender states it.
type origin struct {
	trace   [16]byte
	span    [8]byte
	sampled bool
	state   string // the tracestate
}

// parseParent reads a traceparent. It reports false for anything that W3C Trace Context calls
// invalid; the request then starts a trace of its own.
func parseParent(text string) (o origin, ok bool) {
	if len(text) < parentLength || text[2] != '-' || text[35] != '-' || text[52] != '-' {
		return origin{}, false
	}
	version := text[:2]
	if version == "ff" || len(text) > parentLength && (version == "00" || text[parentLength] != '-') {
		return origin{}, false
	}
	var first, flags [1]byte
	for _, part := range []struct {
		dst  []byte
		text string
	}{{first[:], version}, {o.trace[:], text[3:35]}, {o.span[:], text[36:52]}, {flags[:], text[53:55]}} {
		if part.text != strings.ToLower(part.text) {
			return origin{}, false
		}
		if _, err := hex.Decode(part.dst, []byte(part.text)); err != nil {
			return origin{}, false
		}
	}
	o.sampled = flags[0]&1 != 0
	return o, o.trace != [16]byte{} && o.span != [8]byte{}
}

// originOf returns the trace context of a request: that in its _meta, else that in the headers of
// its HTTP request.
func originOf(meta json.RawMessage, h http.Header) (o origin, ok bool) {
	if text := rawjson.Text(rawjson.Get(meta, "traceparent")); text != "" {
		if o, ok = parseParent(text); ok {
			o.state = bounded(rawjson.Text(rawjson.Get(meta, "tracestate")))
		}
		return o, ok
	}
	if o, ok = parseParent(h.Get("Traceparent")); ok {
		o.state = bounded(strings.Join(h.Values("Tracestate"), ","))
	}
	return o, ok
}

// bounded returns a tracestate, "" if it is too long to be handed on.
func bounded(state string) string {
	if len(state) > maxState {
		return ""
	}
	return state
}

func newTraceID() (id [16]byte) {
	binary.BigEndian.PutUint64(id[:8], rand.Uint64())
	binary.BigEndian.PutUint64(id[8:], rand.Uint64()|1) // never zero
	return id
}

func newSpanID() (id [8]byte) {
	binary.BigEndian.PutUint64(id[:], rand.Uint64()|1) // never zero
	return id
}

type spanKey struct{}

// from returns the span of the request that ctx belongs to, nil without one.
func from(ctx context.Context) *span {
	s, _ := ctx.Value(spanKey{}).(*span)
	return s
}

// ID returns the trace id of the request that ctx belongs to, "" if the request has no span.
func ID(ctx context.Context) string {
	if s := from(ctx); s != nil {
		return hex.EncodeToString(s.trace[:])
	}
	return ""
}
