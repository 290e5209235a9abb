package app

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/gateway"
	"github.com/weir-mcp/weir/internal/upstream"
	"github.com/weir-mcp/weir/mcp"
)

// judge is the router.Judge: what the gateway's policy, the quotas of single
// tools and a strict pin say holds at /mcps/NAME/mcp, too.
type judge struct{ engine *Engine }

// Judges implements router.Judge.
func (j judge) Judges(name string) bool {
	g := j.engine.direct.Load()
	return g != nil && g.HasControls() && g.Judges(j.places(name))
}

// Judge implements router.Judge.
func (j judge) Judge(ctx context.Context, name string, r *mcp.Request, taskTool string) (json.RawMessage, error) {
	if g := j.engine.direct.Load(); g != nil {
		return g.Judge(ctx, j.places(name), r, taskTool)
	}
	return r.Params, nil
}

// Refuses implements router.Judge.
func (j judge) Refuses(upstream, method, name string) bool {
	g := j.engine.direct.Load()
	return g != nil && g.Refuses(j.places(upstream), method, name)
}

// places are the servers of the catalog that a name of the router stands for. A
// Computer as a whole ("desk") is all of its servers ("desk.excel").
func (j judge) places(name string) []gateway.Place {
	if u, ok := j.engine.manager.Upstream(name); ok {
		return []gateway.Place{placeOf(u.Config())}
	}
	if o := j.engine.Offices; o != nil {
		if places := o.places(j.engine.manager, name); len(places) > 0 {
			return places
		}
	}
	// Nobody knows it in the catalog: by its name, then.
	return []gateway.Place{{Upstream: name, Namespace: name, Renamed: true}}
}

func placeOf(s *config.Server) gateway.Place {
	return gateway.Place{Upstream: s.Name, Namespace: s.Namespace}
}

// places are those of a Computer or of one of its servers, as finding finds them.
func (o *Offices) places(m *upstream.Manager, name string) []gateway.Place {
	for _, f := range o.fleets {
		target, whole, ok := f.Resolve(name)
		if !ok {
			continue
		}
		if !whole {
			if u, ok := m.Upstream(target); ok {
				return []gateway.Place{placeOf(u.Config())}
			}
			return nil
		}
		var places []gateway.Place
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
