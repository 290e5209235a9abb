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

// callable refuses a call of a tool whose schema asks for impossible headers: over
// modern HTTP, no client may call it (2026-07-28).
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

// CheckParamHeaders compares the Mcp-Param-* headers that a modern agent sent with a tools/call to
// its params. A mismatch is an error of mcp.KindHeaderMismatch (2026-07-28). A tool that has not been
// listed has no such headers.
func (u *Upstream) CheckParamHeaders(tool string, params json.RawMessage, h http.Header) error {
	return u.lists.headers.Load().of(tool).Check(h, params)
}

// setParamHeaders adds the Mcp-Param-* headers of a modern tools/call.
func (ls *lists) setParamHeaders(tool string, params json.RawMessage, h http.Header) {
	ls.headers.Load().of(tool).Set(h, params)
}

// toolHeaders are the headers of the tools that have some, by name.
type toolHeaders map[string]streamable.ParamHeaders

func (t *toolHeaders) of(tool string) streamable.ParamHeaders {
	if t == nil {
		return nil // nothing has been listed yet
	}
	return (*t)[tool]
}

// refusedHeaders reports whether a server refused a call for headers that it
// misses: it did so before the call ran.
func refusedHeaders(l *link, method string, err error) bool {
	if err == nil || method != "tools/call" || !l.http || !l.hello.Modern {
		return false
	}
	var wire *jsonrpc.Error
	return errors.As(err, &wire) && wire.Code == mcp.KindHeaderMismatch.Info().JSONRPC
}

// relearn lists the tools anew after a call of one was refused for its headers:
// they have not been listed yet, or have changed without a word (2026-07-28). It
// reports whether the tool has other headers than sent, with which the call was
// made, says.
func (ls *lists) relearn(ctx context.Context, l *link, params json.RawMessage, sent *toolHeaders) bool {
	tool := rawjson.Text(rawjson.Get(params, "name"))
	select {
	case ls.learning <- struct{}{}:
		defer func() { <-ls.learning }()
	case <-ctx.Done():
		return false
	}
	if ls.differs(tool, sent) {
		return true // somebody else has just listed them
	}
	if time.Since(ls.learned) < firstRelist {
		return false // a server that refuses every call is not asked for its tools each time
	}
	ls.learned = time.Now()
	tools, _, err := ls.readList(ctx, l, "tools/list", "tools")
	if err != nil {
		ls.srv.log.Warn("the tools cannot be listed after a call was refused for its headers", "tool", tool, "err", err)
		return false
	}
	ls.offered(l, tools)
	if !ls.differs(tool, sent) {
		return false
	}
	ls.refresh() // the catalog is to know, too
	return true
}

// differs reports whether a tool has other headers now, or turns out to be one
// that cannot be called.
func (ls *lists) differs(tool string, sent *toolHeaders) bool {
	if barred := ls.barred.Load(); barred != nil && (*barred)[tool] != nil {
		return true
	}
	return !ls.headers.Load().of(tool).Equal(sent.of(tool))
}
