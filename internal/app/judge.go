package app

import (
	"context"
	"encoding/json"
	"strings"
	"sync/atomic"

	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/metatool"
	"github.com/weir-mcp/weir/internal/upstream"
	"github.com/weir-mcp/weir/mcp"
)

// judge knows the names at /mcps, and implements passthrough.Judge: the gateway's policy, per-tool quotas
// and strict pin also apply at /mcps/NAME/mcp.
type judge struct {
	direct  atomic.Pointer[metatool.DirectCalls] // of the current gateway; nil before the first
	manager *upstream.Manager                    // set before start
	offices func() *Offices
}

// Judges implements passthrough.Judge.
func (j *judge) Judges(name string) bool {
	d := j.direct.Load()
	return d != nil && d.HasControls() && d.Judges(j.places(name))
}

// Judge implements passthrough.Judge.
func (j *judge) Judge(ctx context.Context, name string, r *mcp.Request, taskTool string) (json.RawMessage, error) {
	if d := j.direct.Load(); d != nil {
		return d.Judge(ctx, j.places(name), r, taskTool)
	}
	return r.Params, nil
}

// Shown implements passthrough.Judge.
func (j *judge) Shown(ctx context.Context, name string, r *mcp.Request, result json.RawMessage) (json.RawMessage, error) {
	if d := j.direct.Load(); d != nil {
		return d.Shown(ctx, j.places(name), r, result)
	}
	return result, nil
}

// Refuses implements passthrough.Judge.
func (j *judge) Refuses(ctx context.Context, upstream, method, name string) bool {
	d := j.direct.Load()
	return d != nil && d.Refuses(ctx, j.places(upstream), method, name)
}

// places returns the catalog servers that a router name stands for. The name of a Computer ("desk")
// stands for all of its servers ("desk.excel").
func (j *judge) places(name string) []metatool.Place {
	if u, ok := j.manager.Upstream(name); ok {
		return []metatool.Place{placeOf(u.Config())}
	}
	if o := j.offices(); o != nil {
		if places := o.places(j.manager, name); len(places) > 0 {
			return places
		}
	}
	// The catalog does not know it: judge it by its name.
	return []metatool.Place{{Upstream: name, Namespace: name, Renamed: true}}
}

func placeOf(s *config.Server) metatool.Place {
	return metatool.Place{Upstream: s.Name, Namespace: s.Namespace}
}

// places returns the servers of a Computer, or one of them, as finding finds them.
func (o *Offices) places(m *upstream.Manager, name string) []metatool.Place {
	for _, f := range o.fleets {
		target, whole, ok := f.Resolve(name)
		if !ok {
			continue
		}
		if !whole {
			if u, ok := m.Upstream(target); ok {
				return []metatool.Place{placeOf(u.Config())}
			}
			return nil
		}
		var places []metatool.Place
		for _, one := range f.Names() {
			server, ok := strings.CutPrefix(one, name+".")
			if !ok {
				continue
			}
			if target, _, ok := f.Resolve(one); ok {
				if u, ok := m.Upstream(target); ok {
					p := placeOf(u.Config())
					p.Prefix, p.Renamed = server+"__", true
					places = append(places, p)
				}
			}
		}
		return places
	}
	return nil
}

// upstream returns the configured name for a router name: the two differ for servers of a Computer.
// The name of a whole Computer stays as it is.
func (j *judge) upstream(name string) string {
	if _, ok := j.manager.Upstream(name); ok || j.offices() == nil {
		return name
	}
	if places := j.offices().places(j.manager, name); len(places) == 1 && places[0].Prefix == "" {
		return places[0].Upstream
	}
	return name
}
