package dataplane

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/weir-mcp/weir/internal/cluster"
	"github.com/weir-mcp/weir/internal/cluster/peerlink"
	"github.com/weir-mcp/weir/internal/identity"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/metatool"
	"github.com/weir-mcp/weir/internal/net/httpserver"
	"github.com/weir-mcp/weir/s2sp/dispatch"
)

// peerDispatched is the path at which nodes give each other the bodies of sync results, once. A handle in the
// arguments of a call names the node:
//
//	{"resource_url": "ddi://INC-TOKEN"} ─▶ the node of INC ─▶ {"body_data": "[…]"}
const peerDispatched = "/peer/v1/dispatched"

// maxDispatched bounds a body of another node, as JSON text in JSON. The node bounds the body itself.
const maxDispatched = 160 << 20

// RemoteBodies returns the nodes that keep bodies, as node knows them.
func RemoteBodies(node *cluster.Node) *metatool.BodyNodes {
	return &metatool.BodyNodes{Mark: node.Inc, Fill: func(ctx context.Context, principal string, args json.RawMessage) (json.RawMessage, error) {
		if !bytes.Contains(args, []byte("ddi:")) {
			return args, nil
		}
		handle := strings.TrimSpace(rawjson.Text(rawjson.Get(args, "resource_url")))
		token, is := strings.CutPrefix(handle, dispatch.Scheme)
		inc := cluster.IncOf(token)
		if !is || inc == "" || inc == node.Inc() {
			return args, nil
		}
		owner, err := cluster.Owner(ctx, node, inc)
		switch {
		case errors.Is(err, cluster.ErrGone):
			return nil, fmt.Errorf("%w %.60s: the gateway that had its body is gone; call the resource tool again for a new one", dispatch.ErrHandle, handle)
		case err != nil:
			return nil, fmt.Errorf("the store of this gateway cannot be asked where the body of %.60s is: %w", handle, err)
		case owner == node.Inc(): // it has another INC since
			return args, nil
		}
		body, err := fetchDispatched(ctx, node, owner, principal, handle)
		if err != nil {
			return nil, err
		}
		out, err := rawjson.Delete(args, "resource_url")
		if err == nil {
			out, err = rawjson.Set(out, "body_data", body)
		}
		if err != nil {
			return nil, fmt.Errorf("arguments: %w", err)
		}
		return out, nil
	}}
}

// fetchDispatched asks a node for a body of a principal. It returns a JSON string.
func fetchDispatched(ctx context.Context, node *cluster.Node, owner, principal, handle string) (body []byte, err error) {
	question, err := json.Marshal(map[string]string{"resource_url": handle})
	if err != nil {
		return nil, err
	}
	ctx = identity.With(ctx, &identity.Identity{Principal: principal})
	status, raw, err := peerlink.Ask(ctx, node, owner, http.MethodPost, peerDispatched, question, maxDispatched)
	switch {
	case err != nil && cluster.NotSent(err):
		return nil, fmt.Errorf("the gateway that has the body of %.60s cannot be reached; make the call again: %w", handle, err)
	case status == 0:
		return nil, fmt.Errorf("the gateway that has the body of %.60s does not answer, and the handle may be spent; call the resource tool again for a new one: %w", handle, err)
	case status == http.StatusNotFound:
		return nil, fmt.Errorf("%w %.60s: a handle works once, for ten minutes; call the resource tool again for a new one", dispatch.ErrHandle, handle)
	case err != nil || status != http.StatusOK || len(raw) > maxDispatched:
		return nil, fmt.Errorf("the gateway that had the body of %.60s has answered with status %d and %d bytes, and the handle is spent; call the resource tool again for a new one", handle, status, len(raw))
	}
	if body = rawjson.Get(raw, "body_data"); body == nil {
		return nil, fmt.Errorf("the gateway that had the body of %.60s has answered without a body; call the resource tool again for a new one", handle)
	}
	return body, nil
}

// give serves peerDispatched: it gives a body of a principal to another node, once.
func (b *Bodies) give(w http.ResponseWriter, r *http.Request, id *identity.Identity) {
	args, err := io.ReadAll(io.LimitReader(r.Body, peerlink.MaxRefusal))
	if err != nil || !strings.HasPrefix(rawjson.Text(rawjson.Get(args, "resource_url")), dispatch.Scheme) {
		httpserver.WriteJSON(w, http.StatusBadRequest, struct{}{})
		return
	}
	filled, ok := b.taken(id.Principal, args)
	if !ok {
		filled, ok = b.take(id.Principal, args)
	}
	if !ok {
		httpserver.WriteJSON(w, http.StatusNotFound, struct{}{})
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(filled) // the other node may have gone
}
