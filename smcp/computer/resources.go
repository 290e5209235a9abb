package computer

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/office/a2c"
	"github.com/weir-mcp/weir/mcp/jsonrpc"
	"github.com/weir-mcp/weir/smcp"
)

// resources returns a page of the resources of one MCP server, in the protocol's spelling.
func (c *Computer) resources(ctx context.Context, req smcp.GetResources) (smcp.Resources, error) {
	if req.Server == "" {
		return smcp.Resources{}, a2c.ErrPayload.With("expected", "mcp_server")
	}
	s := c.catalog.server(req.Server)
	if s == nil || s.Disabled {
		e := smcp.Errorf(smcp.CodeNoServer, "MCP server '%s' not found", req.Server)
		e.Server = req.Server
		return smcp.Resources{}, e
	}
	up, ok := c.manager.Upstream(s.Name)
	if !ok {
		return smcp.Resources{}, a2c.ErrInternal
	}
	var params json.RawMessage
	if req.Cursor != "" {
		params = rawjson.Object("cursor", rawjson.Quote(req.Cursor))
	}
	result, err := up.Call(ctx, "resources/list", params, nil)
	var answered *jsonrpc.Error
	if errors.As(err, &answered) && answered.Code == jsonrpc.CodeMethodNotFound {
		e := smcp.Errorf(smcp.CodeNoCapability, "MCP server '%s' has no resources", req.Server)
		e.Server, e.Capability = req.Server, "resources"
		return smcp.Resources{}, e
	}
	if err != nil {
		return smcp.Resources{}, smcp.Errorf(smcp.CodeInternal, "%s", c.inputs.redact(err.Error()))
	}
	out := smcp.Resources{Resources: []json.RawMessage{}, NextCursor: rawjson.Text(rawjson.Get(result, "nextCursor")), ReqID: req.ReqID}
	err = rawjson.EachElement(rawjson.Get(result, "resources"), func(v []byte) bool {
		out.Resources = append(out.Resources, snake(v))
		return true
	})
	if err != nil {
		return smcp.Resources{}, smcp.Errorf(smcp.CodeInternal, "MCP server '%s' answered what is no list", req.Server)
	}
	return out, nil
}

// snake renames the members that MCP writes in camel case.
func snake(raw json.RawMessage) json.RawMessage {
	out := rename(raw, "mimeType", "mime_type")
	if a := rawjson.Get(out, "annotations"); rawjson.IsObject(a) {
		if next, err := rawjson.Set(out, "annotations", rename(a, "lastModified", "last_modified")); err == nil {
			out = next
		}
	}
	return slices.Clone(out)
}

func rename(obj json.RawMessage, from, to string) json.RawMessage {
	v := rawjson.Get(obj, from)
	if v == nil {
		return obj
	}
	out, err := rawjson.Delete(obj, from)
	if err == nil {
		out, err = rawjson.Set(out, to, v)
	}
	if err != nil {
		return obj
	}
	return out
}

// config returns the answer to client:get_config.
func (c *Computer) config(d a2c.Dialect, flat bool) (smcp.Config, error) {
	out := smcp.Config{Servers: map[string]json.RawMessage{}}
	for _, in := range c.Inputs() {
		raw, err := in.public()
		if err != nil {
			return out, err
		}
		out.Inputs = append(out.Inputs, raw)
	}
	for _, s := range c.Servers() {
		raw, err := s.public(flat)
		if err != nil {
			return out, err
		}
		key := s.Name
		if d.Prefixed() {
			key = s.bundle()
		}
		out.Servers[key] = raw
	}
	return out, nil
}
