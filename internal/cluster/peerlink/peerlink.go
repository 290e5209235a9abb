// Package peerlink has the requests that only the nodes of a cluster make of each other: how a node asks
// another one, and the paths that a node answers.
//
//	Ask ─▶ cluster.Send ═ peer link ═▶ Routes.Serve
//
// It does not know what the requests are for.
package peerlink

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/weir-mcp/weir/internal/cluster"
	"github.com/weir-mcp/weir/internal/identity"
)

// A Route is a path that only the other nodes of a cluster reach, over the peer link.
type Route struct {
	Path string // with a slash at its end, all paths below it
	// Serve answers a request that another node makes for id. The context does not have id.
	Serve func(w http.ResponseWriter, r *http.Request, id *identity.Identity)
}

// Routes are the routes of a node.
type Routes []Route

// Serve answers a request of another node for the caller id, if a route has the path.
func (all Routes) Serve(w http.ResponseWriter, r *http.Request, id *identity.Identity) (served bool) {
	for _, route := range all {
		if r.URL.Path == route.Path || strings.HasSuffix(route.Path, "/") && strings.HasPrefix(r.URL.Path, route.Path) {
			route.Serve(w, r, id)
			return true
		}
	}
	return false
}

// MaxRefusal bounds the bytes that are read of another node's refusal.
const MaxRefusal = 16 << 10

// Ask makes a request to another node over the peer link and reads its answer: at most limit bytes, and one
// more. A status other than 0 says that the node has started to answer.
func Ask(ctx context.Context, node *cluster.Node, inc, method, path string, body []byte, limit int64) (status int, answer []byte, err error) {
	r, err := http.NewRequestWithContext(ctx, method, "http://node"+path, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	resp, err := cluster.Send(node, inc, r)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err = io.ReadAll(io.LimitReader(resp.Body, limit+1))
	return resp.StatusCode, answer, err
}

// LeaveTimeout bounds how long the end of a node waits for the store.
const LeaveTimeout = 2 * time.Second
