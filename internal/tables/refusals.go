package tables

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/weir-mcp/weir/internal/dispatch"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/result"
	"github.com/weir-mcp/weir/s2sp/plane"
)

// Refusals tells calls of consumer tools why the data plane has refused the rows of their
// resource_url. A consumer often reports only the HTTP status. The zero value is ready to use. It is
// safe for concurrent use.
//
//	call with resource_url ─▶ watch ─▶ consumer ─▶ POST /s2sp/data/{token} ─▶ refused: Tell
//	                           ▲◀──────── "502 Bad Gateway" ◀────────────────────┘
//	                           └─ the reason goes with the consumer's error
type Refusals struct {
	mu       sync.Mutex // guards below, and the reasons
	watching map[string][]*watch
}

// watch is one call that may fetch a token.
type watch struct{ reason string }

// Tell records the reason of a refused fetch for the calls in flight with this token.
func (r *Refusals) Tell(token, reason string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, w := range r.watching[token] {
		w.reason = reason
	}
}

// watch starts to record for a call. end returns the last reason, "" if no fetch was refused.
func (r *Refusals) watch(token string) (end func() string) {
	w := &watch{}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.watching == nil {
		r.watching = map[string][]*watch{}
	}
	r.watching[token] = append(r.watching[token], w)
	return func() string {
		r.mu.Lock()
		defer r.mu.Unlock()
		rest := r.watching[token]
		for i := range rest {
			if rest[i] == w {
				rest = append(rest[:i], rest[i+1:]...)
				break
			}
		}
		if r.watching[token] = rest; len(rest) == 0 {
			delete(r.watching, token)
		}
		return w.reason
	}
}

// listen notes why the data plane refuses the rows behind a resource_url of this gateway while the tool
// that consumes them runs.
func (t *Tables) listen(_ context.Context, c *dispatch.Call) error {
	if !rawjson.Contains(c.Args, plane.ParamURL) {
		return nil
	}
	if token, own := ownToken(t.base, strings.TrimSpace(rawjson.Text(rawjson.Get(c.Args, plane.ParamURL)))); own {
		c.Refusal = t.opts.Refusals.watch(token)
	}
	return nil
}

// explain adds to the error of a tool that consumes rows why it did not get them.
func (t *Tables) explain(_ context.Context, c *dispatch.Call, err error) error {
	if c.Refusal == nil {
		return err
	}
	why := c.Refusal()
	if why == "" {
		return err
	}
	why = fmt.Sprintf("%s: %s", plane.ParamURL, why)
	var e *result.Error
	switch {
	case errors.As(err, &e):
		out := *e
		out.Message = why + " (" + out.Message + ")"
		return &out
	case err == nil && string(rawjson.Get(c.Reply, "isError")) == "true":
		c.Reply = withText(c.Reply, why)
	}
	return err
}

// withText returns a result with one more block of text.
func withText(raw json.RawMessage, text string) json.RawMessage {
	var blocks []byte
	if err := rawjson.EachElement(rawjson.Get(raw, "content"), func(block []byte) bool {
		blocks = result.AppendBlock(blocks, block)
		return true
	}); err != nil {
		return raw
	}
	out, err := rawjson.Set(raw, "content", append(append([]byte{'['}, result.AppendText(blocks, text)...), ']'))
	if err != nil {
		return raw
	}
	return out
}
