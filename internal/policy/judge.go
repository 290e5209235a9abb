package policy

import (
	"context"
	"encoding/json"
	"iter"
	"sync/atomic"

	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/metatool"
	"github.com/weir-mcp/weir/internal/passthrough"
	"github.com/weir-mcp/weir/internal/upstream"
	"github.com/weir-mcp/weir/mcp"
)

// A Judge knows the names at /mcps, and implements passthrough.Judge: the gateway's policy, per-tool quotas
// and strict pin also apply at /mcps/NAME/mcp.
type Judge struct {
	calls atomic.Pointer[metatool.DirectCalls] // of the current gateway; nil before the first
	needs JudgeNeeds
}

// JudgeNeeds is what a Judge asks for names.
type JudgeNeeds struct {
	// Server returns a server of the manager.
	Server func(name string) (*upstream.Upstream, bool)
	// Computers returns the servers of a name of the offices, with the prefix of their tools: "" if the name
	// is this server.
	Computers func(name string) iter.Seq2[string, string]
}

// NewJudge returns a Judge that allows everything until Use.
func NewJudge(n JudgeNeeds) *Judge { return &Judge{needs: n} }

var _ passthrough.Judge = (*Judge)(nil)

// Use makes the calls of a gateway count.
func (j *Judge) Use(d *metatool.DirectCalls) { j.calls.Store(d) }

// Calls returns the calls of the current gateway; nil before the first Use.
func (j *Judge) Calls() *metatool.DirectCalls { return j.calls.Load() }

// Judges implements passthrough.Judge.
func (j *Judge) Judges(name string) bool {
	d := j.Calls()
	return d != nil && d.HasControls() && d.Judges(j.Places(name))
}

// Judge implements passthrough.Judge.
func (j *Judge) Judge(ctx context.Context, name string, r *mcp.Request, taskTool string) (json.RawMessage, error) {
	if d := j.Calls(); d != nil {
		return d.Judge(ctx, j.Places(name), r, taskTool)
	}
	return r.Params, nil
}

// Shown implements passthrough.Judge.
func (j *Judge) Shown(ctx context.Context, name string, r *mcp.Request, result json.RawMessage) (json.RawMessage, error) {
	if d := j.Calls(); d != nil {
		return d.Shown(ctx, j.Places(name), r, result)
	}
	return result, nil
}

// Refuses implements passthrough.Judge.
func (j *Judge) Refuses(ctx context.Context, upstream, method, name string) bool {
	d := j.Calls()
	return d != nil && d.Refuses(ctx, j.Places(upstream), method, name)
}

// Places returns the catalog servers that a router name stands for. The name of a Computer ("desk")
// stands for all of its servers ("desk.excel").
func (j *Judge) Places(name string) []metatool.Place {
	if u, ok := j.needs.Server(name); ok {
		return []metatool.Place{placeOf(u.Config())}
	}
	if places := j.computer(name); len(places) > 0 {
		return places
	}
	// The catalog does not know it: judge it by its name.
	return []metatool.Place{{Upstream: name, Namespace: name, Renamed: true}}
}

func placeOf(s *config.Server) metatool.Place {
	return metatool.Place{Upstream: s.Name, Namespace: s.Namespace}
}

// computer returns the servers of a Computer, or one of them.
func (j *Judge) computer(name string) (places []metatool.Place) {
	for server, prefix := range j.needs.Computers(name) {
		if u, ok := j.needs.Server(server); ok {
			p := placeOf(u.Config())
			p.Prefix, p.Renamed = prefix, prefix != ""
			places = append(places, p)
		}
	}
	return places
}

// ServerOf returns the configured name for a router name: the two differ for servers of a Computer.
// The name of a whole Computer stays as it is.
func (j *Judge) ServerOf(name string) string {
	if _, ok := j.needs.Server(name); ok {
		return name
	}
	if places := j.computer(name); len(places) == 1 && places[0].Prefix == "" {
		return places[0].Upstream
	}
	return name
}
