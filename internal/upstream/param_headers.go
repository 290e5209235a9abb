package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/jsonrpc"
	"github.com/weir-mcp/weir/mcp/streamable"
)

// toolRules are what calls of the listed tools must keep to. They do not change once they are in use.
// The nil toolRules have no rule.
type toolRules struct {
	headers map[string]streamable.ParamHeaders // by tool, for tools that have some
	barred  map[string]error                   // tools that cannot be called, with the reasons
}

func (r *toolRules) demand(tool string, h streamable.ParamHeaders) {
	if r.headers == nil {
		r.headers = map[string]streamable.ParamHeaders{}
	}
	r.headers[tool] = h
}

func (r *toolRules) bar(tool string, why error) {
	if r.barred == nil {
		r.barred = map[string]error{}
	}
	r.barred[tool] = why
}

// of returns the headers of a tool.
func (r *toolRules) of(tool string) streamable.ParamHeaders {
	if r == nil {
		return nil
	}
	return r.headers[tool]
}

// differ reports whether a tool has other headers than sent, or cannot be called.
func (r *toolRules) differ(tool string, sent *toolRules) bool {
	return r != nil && r.barred[tool] != nil || !r.of(tool).Equal(sent.of(tool))
}

// callable refuses a call of a tool whose schema requires impossible headers. Over modern HTTP no
// client may call such a tool (2026-07-28).
func (ls *lists) callable(r *toolRules, method string, params json.RawMessage) error {
	if method != "tools/call" || r == nil || len(r.barred) == 0 {
		return nil
	}
	tool := rawjson.Text(rawjson.Get(params, "name"))
	if err := r.barred[tool]; err != nil {
		return mcp.Errorf(mcp.KindInvalidParams, "%s: the tool %q cannot be called: %v", ls.srv.who, tool, err)
	}
	return nil
}

// CheckParamHeaders compares the Mcp-Param-* headers of a modern agent's tools/call with its
// params. A mismatch is an error of mcp.KindHeaderMismatch (2026-07-28). A tool that has not been
// listed has no such headers.
func (u *Upstream) CheckParamHeaders(ctx context.Context, tool string, params json.RawMessage, h http.Header) error {
	return u.lists.rulesOf(ctx).of(tool).Check(h, params)
}

// rulesOf returns the rules for calls of the caller of ctx. A caller of a server that lists for each
// principal has rules of its own.
func (ls *lists) rulesOf(ctx context.Context) *toolRules {
	if ls.perCaller() {
		return ls.own.rules(ls.own.keyOf(ctx))
	}
	return ls.rules.Load()
}

// setParamHeaders adds the Mcp-Param-* headers of a modern tools/call over the slot's connection.
func (s *slot) setParamHeaders(tool string, params json.RawMessage, h http.Header) {
	rules := s.conns.lists.rules.Load()
	if s.conns.lists.perCaller() {
		rules = s.conns.lists.own.rules(memberKey{s.key.principal, s.key.grant})
	}
	rules.of(tool).Set(h, params)
}

// refusedHeaders reports whether a server refused a call because of missing headers, and so did not
// run it.
func refusedHeaders(l *link, method string, err error) bool {
	if err == nil || method != "tools/call" || !l.http || !l.hello.Modern {
		return false
	}
	var wire *jsonrpc.Error
	return errors.As(err, &wire) && wire.Code == mcp.KindHeaderMismatch.Info().JSONRPC
}

// relearn lists the tools again after a call was refused for its headers: the tools have not been
// listed yet, or have changed without a notification (2026-07-28). It reports whether the rules for
// the tool differ from sent, the rules of the refused call. At a server that lists one principal's
// account for all callers it only requests new lists, because link l belongs to another principal.
func (ls *lists) relearn(ctx context.Context, l *link, params json.RawMessage, sent *toolRules) bool {
	tool := rawjson.Text(rawjson.Get(params, "name"))
	if ls.perCaller() {
		key := memberKey{l.slot.key.principal, l.slot.key.grant}
		ls.own.relearn(ctx, key)
		return ls.own.rules(key).differ(tool, sent)
	}
	select {
	case ls.learning <- struct{}{}:
		defer func() { <-ls.learning }()
	case <-ctx.Done():
		return false
	}
	if ls.rules.Load().differ(tool, sent) {
		return true // another call has just listed them
	}
	if time.Since(ls.learned) < firstRelist {
		return false // do not list the tools again for every call of a server that refuses all calls
	}
	ls.learned = time.Now()
	if ls.srv.cfg.PerPrincipal() {
		// What the server shows this caller is not for all. The next call has the new headers.
		ls.refresh()
		return false
	}
	tools, _, err := ls.readList(ctx, l, "tools/list", "tools", ls.srv.opts.listBytes)
	if err != nil {
		ls.srv.log.Warn("the tools cannot be listed after a call was refused for its headers", "tool", tool, "err", err)
		return false
	}
	_, rules := ls.offered(l, tools)
	ls.rules.Store(rules)
	if !rules.differ(tool, sent) {
		return false
	}
	ls.refresh() // the catalog needs the change as well
	return true
}
