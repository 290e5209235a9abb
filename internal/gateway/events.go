package gateway

import (
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/weir-mcp/weir/internal/gateway/result"
	"github.com/weir-mcp/weir/internal/telemetry"
	"github.com/weir-mcp/weir/mcp"
)

// Event is what operators are told of a call: what was called, by whom, how
// long it took and how it ended. It never holds argument values, query text or
// results, and no session id (spec/gateway §3.4).
type Event = telemetry.Event

// accounts counts the answers of a gateway in tokens and tells its events.
type accounts struct {
	state       *State
	lists       *listing
	countTokens func(string) int
	onEvent     func(Event) // nil is told nothing
}

// conclude counts an answer in tokens and tells the event of the call. err is
// an *Error where result is its text, or an error of the protocol.
func (a *accounts) conclude(c *metaCall, result json.RawMessage, err error) {
	took := time.Since(c.start)
	a.state.account.Call(&c.state.usage, err != nil)
	var tell func(read, raw int, counted bool)
	if a.onEvent != nil {
		e := a.event(c, err, took)
		tell = func(read, raw int, counted bool) {
			e.TokensRead, e.TokensRaw, e.Counted = read, raw, counted
			a.onEvent(e)
		}
	}
	a.count(c, result, err, tell)
}

func (a *accounts) event(c *metaCall, err error, took time.Duration) Event {
	e := Event{
		Time: time.Now(), Name: strings.TrimPrefix(c.name, "tool_") + ".completed",
		Session: c.state.tag, Principal: c.state.principal, MetaTool: c.name,
		Duration: took, Attempts: c.attempts, DryRun: c.dryRun, IsError: c.isError,
	}
	if c.entry != nil {
		e.ToolID, e.Upstream = c.entry.ID, c.entry.Upstream
	}
	var own *result.Error
	switch {
	case errors.As(err, &own):
		e.Code, e.Scope = string(own.Code), own.Scope
	case err != nil:
		kind, _ := mcp.KindOf(err)
		e.Code = strings.ToUpper(kind.String())
	case c.dryRun:
		e.Name = telemetry.ExecuteDryRun
	case c.cacheHit:
		e.Name = telemetry.ExecuteCacheHit
	}
	if err != nil {
		e.Name = strings.TrimPrefix(c.name, "tool_") + ".failed"
	}
	return e
}
