package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/weir-mcp/weir/internal/rawjson"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/jsonrpc"
	"github.com/weir-mcp/weir/mcp/streamable"
)

// callable refuses a call of a tool whose schema requires impossible headers. Over modern HTTP no
// client may call such a tool (2026-07-28).
func (ls *lists) callable(method string, params json.RawMessage) error {
	barred := ls.barred.Load()
	if method != "tools/call" || barred == nil || len(*barred) == 0 {
		return nil
	}
	tool := rawjson.Text(rawjson.Get(params, "name"))
	if err := (*barred)[tool]; err != nil {
		return mcp.Errorf(mcp.KindInvalidParams, "%s: the tool %q cannot be called: %v", ls.srv.who, tool, err)
	}
	return nil
}

// CheckParamHeaders compares the Mcp-Param-* headers of a modern agent's tools/call with its
// params. A mismatch is an error of mcp.KindHeaderMismatch (2026-07-28). A tool that has not been
// listed has no such headers.
func (u *Upstream) CheckParamHeaders(tool string, params json.RawMessage, h http.Header) error {
	return u.lists.headers.Load().of(tool).Check(h, params)
}

// setParamHeaders adds the Mcp-Param-* headers of a modern tools/call.
func (ls *lists) setParamHeaders(tool string, params json.RawMessage, h http.Header) {
	ls.headers.Load().of(tool).Set(h, params)
}

// toolHeaders are the headers of tools by name, for tools that have some.
type toolHeaders map[string]streamable.ParamHeaders

func (t *toolHeaders) of(tool string) streamable.ParamHeaders {
	if t == nil {
		return nil // nothing has been listed yet
	}
	return (*t)[tool]
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
// listed yet, or have changed without a notification (2026-07-28). It reports whether the tool's
// headers differ from sent, those of the refused call. At a server with a credential for each
// principal it only requests new lists, because link l is that of one principal.
func (ls *lists) relearn(ctx context.Context, l *link, params json.RawMessage, sent *toolHeaders) bool {
	tool := rawjson.Text(rawjson.Get(params, "name"))
	select {
	case ls.learning <- struct{}{}:
		defer func() { <-ls.learning }()
	case <-ctx.Done():
		return false
	}
	if ls.differs(tool, sent) {
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
	tools, _, err := ls.readList(ctx, l, "tools/list", "tools")
	if err != nil {
		ls.srv.log.Warn("the tools cannot be listed after a call was refused for its headers", "tool", tool, "err", err)
		return false
	}
	ls.offered(l, tools)
	if !ls.differs(tool, sent) {
		return false
	}
	ls.refresh() // the catalog needs the change, too
	return true
}

// differs reports whether a tool has other headers now, or cannot be called any more.
func (ls *lists) differs(tool string, sent *toolHeaders) bool {
	if barred := ls.barred.Load(); barred != nil && (*barred)[tool] != nil {
		return true
	}
	return !ls.headers.Load().of(tool).Equal(sent.of(tool))
}
