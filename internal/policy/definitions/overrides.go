package definitions

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"sync/atomic"

	"github.com/weir-mcp/weir/internal/catalog/primitive"
	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/passthrough"
	"github.com/weir-mcp/weir/mcp"
)

// Overrides are the changes of tools in the present configuration. They are safe for concurrent use.
type Overrides struct {
	present func() *config.Config
	last    atomic.Pointer[overrideTable]
}

// overrideTable has the overrides of one configuration by server.
type overrideTable struct {
	of       *config.Config
	byServer map[string]primitive.Overrides
}

// NewOverrides returns the Overrides of the configuration that present returns.
func NewOverrides(present func() *config.Config) *Overrides { return &Overrides{present: present} }

// Of returns the overrides of a server, nil without any.
func (v *Overrides) Of(server string) primitive.Overrides {
	c, t := v.present(), v.last.Load()
	if t == nil || t.of != c {
		t = &overrideTable{of: c, byServer: map[string]primitive.Overrides{}}
		for _, s := range c.Servers {
			if len(s.Overrides) > 0 {
				t.byServer[s.Name] = overridesOf(s)
			}
		}
		v.last.Store(t)
	}
	return t.byServer[server]
}

// WrapFind wraps Router.Find so that the tools that an operator changes at /mcp are changed in the same
// way at /mcps/NAME/mcp.
func (v *Overrides) WrapFind(find func(string) (passthrough.Upstream, bool)) func(string) (passthrough.Upstream, bool) {
	return func(name string) (passthrough.Upstream, bool) {
		up, ok := find(name)
		if ok && len(v.Of(name)) > 0 {
			return overriddenUpstream{up, v, name}, true
		}
		return up, ok
	}
}

// overriddenUpstream is an upstream with tools that an operator changes. weir must parse its messages,
// so it has no Target for byte-by-byte forwarding.
type overriddenUpstream struct {
	passthrough.Upstream
	all  *Overrides
	name string
}

var _ passthrough.Upstream = overriddenUpstream{}

// Target implements passthrough.Endpoint.
func (u overriddenUpstream) Target() (passthrough.Target, bool) { return passthrough.Target{}, false }

// CheckParamHeaders implements passthrough.Upstream.
func (u overriddenUpstream) CheckParamHeaders(ctx context.Context, tool string, params json.RawMessage, h http.Header) error {
	if o, _ := u.all.Of(u.name).Shown(tool); o != nil {
		tool = o.Tool
	}
	return u.Upstream.CheckParamHeaders(ctx, tool, params, h)
}

// Call implements mcp.Peer.
func (u overriddenUpstream) Call(ctx context.Context, method string, params json.RawMessage, back mcp.Handler) (json.RawMessage, error) {
	if method == "tools/call" {
		var err error
		if params, err = u.call(params); err != nil {
			return nil, err
		}
	}
	result, err := u.Upstream.Call(ctx, method, params, back)
	if method == "tools/list" && err == nil {
		return u.list(result)
	}
	return result, err
}

// Notify implements mcp.Peer. A request without an id would reach the server unchanged.
func (u overriddenUpstream) Notify(ctx context.Context, method string, params json.RawMessage) error {
	if !strings.HasPrefix(method, "notifications/") {
		return mcp.Errorf(mcp.KindInvalidRequest, "%q is a request and needs an id", method)
	}
	return u.Upstream.Notify(ctx, method, params)
}

// call returns the params of a call as the server gets them.
func (u overriddenUpstream) call(params json.RawMessage) (json.RawMessage, error) {
	name, err := soleText(params, "name")
	if err != nil {
		return nil, err
	}
	o, known := u.all.Of(u.name).Shown(name)
	if !known {
		return nil, mcp.Errorf(mcp.KindInvalidParams, "Unknown tool: %s", name)
	}
	if o == nil {
		return params, nil
	}
	args, err := sole(params, "arguments")
	if err != nil {
		return nil, err
	}
	if err := o.Check(args); err != nil {
		return nil, mcp.Errorf(mcp.KindInvalidParams, "%s: %w", name, err)
	}
	if args, err = o.Fill(args); err == nil && args != nil {
		params, err = rawjson.Set(params, "arguments", args)
	}
	if err == nil {
		params, err = rawjson.Set(params, "name", rawjson.Quote(o.Tool))
	}
	if err != nil {
		return nil, mcp.Errorf(mcp.KindInvalidParams, "%s: %w", name, err)
	}
	return params, nil
}

// list returns a list of tools as agents see it. The catalog reports tools that are left out.
func (u overriddenUpstream) list(result json.RawMessage) (json.RawMessage, error) {
	w, overrides := rawjson.NewWriter(nil).Array(), u.all.Of(u.name)
	err := rawjson.EachElement(rawjson.Get(result, "tools"), func(raw []byte) bool {
		if o := overrides[rawjson.Text(rawjson.Get(raw, "name"))]; o != nil {
			shown, err := o.Apply(raw)
			if err != nil {
				return true
			}
			raw = shown
		}
		w.Raw(raw)
		return true
	})
	if err == nil {
		result, err = rawjson.Set(result, "tools", w.EndArray().Bytes())
	}
	if err != nil {
		return nil, mcp.Errorf(mcp.KindUpstreamProtocol, "the list of tools cannot be read: %w", err)
	}
	return result, nil
}

// overridesOf returns the overrides of the tools of a server.
func overridesOf(s *config.Server) primitive.Overrides {
	all := make(primitive.Overrides, len(s.Overrides))
	for _, from := range s.Overrides {
		o := &primitive.Override{
			Tool: from.Tool, Name: from.Name, Title: from.Title, Description: from.Description, Annotations: json.RawMessage(from.Annotations),
			Hidden: map[string]bool{}, Values: map[string]json.RawMessage{},
		}
		for _, name := range from.Hide {
			o.Hidden[name] = true
		}
		values := func(object []byte, hidden bool) {
			_ = rawjson.EachMember(object, func(m rawjson.Member) bool { // it was read from a file
				name := string(m.Key)
				if o.Values[name] = m.Value; hidden {
					o.Hidden[name] = true
				}
				return true
			})
		}
		values(from.Default, false)
		values(from.Fixed, true)
		all[from.Tool] = o
	}
	return all
}
