package passthrough

import (
	"errors"
	"io"
	"net/http"

	"github.com/weir-mcp/weir/internal/net/guard"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/jsonrpc"
	"github.com/weir-mcp/weir/mcp/streamable"
)

// taskElsewhere serves a request about a principal's task at the node of the cluster whose server program has
// the task. It returns false, and has written nothing, if that is this node, or the upstream is no program,
// or the principal has no such task. body returns the body of the request again.
//
// The other node gets the request without its session, which is not there: a server that asks something
// during tasks/result gets the answer that no client can answer.
func (f *face) taskElsewhere(w http.ResponseWriter, r *http.Request, id jsonrpc.ID, task string, body func() io.ReadCloser, length int64) (served bool) {
	docs := f.pass.tasks.docs
	if docs == nil || docs.inc == nil || task == "" {
		return false
	}
	t, ok, err := f.pass.tasks.find(r.Context(), task)
	principal := guard.Principal(r.Context())
	if err != nil || !ok || t.inc == "" || t.inc == docs.inc() || t.principal != principal && principal != mcp.LocalPrincipal {
		return false // check reports the mistake
	}
	out := r.Clone(r.Context())
	out.Header.Del(streamable.HeaderSession)
	out.Body, out.ContentLength = body(), length
	defer func() { _ = out.Body.Close() }()
	switch err = f.rt.o.Elsewhere(t.inc, id, w, out); {
	case err == nil:
		return true
	case errors.Is(err, ErrNodeGone):
		gone := mcp.Errorf(mcp.KindNotFound, "the task %s is gone with the gateway whose server program ran it; run the tool again if its result is still needed", clip(task))
		if id != "" {
			gone.Kind = mcp.KindInvalidParams // as check says of a task that is not there
		}
		writeError(w, id, gone)
		return true
	}
	return false
}
