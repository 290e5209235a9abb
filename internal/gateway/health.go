package gateway

import (
	"cmp"
	"math"
	"path/filepath"
	"slices"
	"time"

	"github.com/weir-mcp/weir/internal/catalog/primitive"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/lockfile"
	"github.com/weir-mcp/weir/internal/observe/metrics"
	"github.com/weir-mcp/weir/internal/office"
	"github.com/weir-mcp/weir/internal/part"
	"github.com/weir-mcp/weir/internal/policy/definitions"
	"github.com/weir-mcp/weir/internal/store/nodestore"
	"github.com/weir-mcp/weir/internal/upstream"
)

// Values of Health.Status.
const (
	StatusOK       = "ok"       // every upstream can be called
	StatusStarting = "starting" // some upstreams have not answered yet
	StatusDegraded = "degraded" // some upstreams cannot be called, or the store of the cluster does not answer
	StatusStopping = "stopping" // the gateway shuts down and finishes running calls
)

// Health is the response of /healthz; weir ls shows it.
type Health struct {
	Status    string                    `json:"status"`
	Uptime    float64                   `json:"uptime"` // seconds
	Name      string                    `json:"name"`
	Version   string                    `json:"version"`
	Mode      string                    `json:"mode"`
	Config    string                    `json:"config,omitempty"`
	Upstreams map[string]UpstreamHealth `json:"upstreams"`
	Hub       *office.Health            `json:"hub,omitempty"`
	Store     string                    `json:"store,omitempty"` // what is wrong with the store of the cluster
}

// UpstreamHealth is the state of one upstream.
type UpstreamHealth struct {
	Name      string `json:"name"`
	State     string `json:"state"`
	Transport string `json:"transport"`
	Namespace string `json:"namespace,omitempty"`
	Server    string `json:"server,omitempty"`
	Version   string `json:"version,omitempty"` // the server's version
	Protocol  string `json:"protocol,omitempty"`
	Listed    bool   `json:"-"` // its entries are known
	Tools     int    `json:"tools"`
	Resources int    `json:"resources"`
	Prompts   int    `json:"prompts"`
	Differs   int    `json:"differs,omitempty"` // definitions that differ from weir.lock
	Held      int    `json:"held,omitempty"`    // entries that are hidden until weir trust accept
	Calls     int64  `json:"calls"`
	Errors    int64  `json:"errors"`
	InFlight  int64  `json:"in_flight"`
	Restarts  int64  `json:"restarts"`
	Pid       int    `json:"pid,omitempty"`
	Error     string `json:"error,omitempty"`
	OwnLists  bool   `json:"own_lists,omitempty"` // it lists for each caller; the numbers are this caller's
	Note      string `json:"note,omitempty"`      // why it is starting or left out
	Since     string `json:"since,omitempty"`     // time of the last change of State, RFC 3339
}

// Health returns the state of the gateway and its upstreams.
func (g *Gateway) Health() *Health {
	c := g.config.Load()
	h := &Health{
		Status: StatusOK, Uptime: math.Round(time.Since(g.Run.Started).Seconds()*1000) / 1000,
		Name: part.ServerName, Version: g.Run.Version, Mode: string(c.Mode), Upstreams: map[string]UpstreamHealth{},
	}
	if path, err := filepath.Abs(c.Path()); err == nil && c.Path() != "" {
		h.Config = path
	}
	if f := g.Catalog.file.Load(); f != nil {
		l := f.Listing()
		h.Upstreams[f.Name()] = UpstreamHealth{
			Name: f.Name(), State: string(upstream.StateIdle), Transport: "file", Server: "catalog file",
			Listed: true, Tools: len(l.Tools), Resources: len(l.Resources) + len(l.ResourceTemplates), Prompts: len(l.Prompts),
		}
	}
	for _, s := range c.Servers {
		if reason := c.Omitted(s.Name); reason != "" {
			h.Upstreams[s.Name] = UpstreamHealth{Name: s.Name, State: string(upstream.StateLeftOut), Transport: string(s.Type), Namespace: s.Namespace, Note: reason}
		}
	}
	h.Hub = g.Offices.Health()
	if h.Store = nodestore.Trouble(g.Store.Node()); h.Store != "" {
		h.Status = StatusDegraded
	}
	for _, s := range g.manager.Status() {
		h.add(s)
		h.complete(g.Definitions, s.Name)
	}
	return h
}

// add adds an upstream. An upstream that restarts after a failure keeps the reason of that failure,
// because the next attempt may take just as long. An upstream whose lists cannot be read gives that
// as the reason why it has no tools.
func (h *Health) add(s upstream.Status) {
	u := UpstreamHealth{
		Name: s.Name, State: string(s.State), Transport: string(s.Transport), Namespace: s.Namespace, Protocol: s.Version,
		Server: rawjson.Text(rawjson.Get(s.ServerInfo, "name")), Version: rawjson.Text(rawjson.Get(s.ServerInfo, "version")),
		Listed: s.Listed, OwnLists: s.OwnLists, Tools: s.Tools, Resources: s.Resources, Prompts: s.Prompts,
		Calls: s.Calls, Errors: s.Errors, InFlight: s.InFlight, Restarts: s.Restarts, Pid: s.Pid, Note: s.Note,
	}
	if !s.Since.IsZero() {
		u.Since = s.Since.UTC().Format(time.RFC3339)
	}
	if s.State == upstream.StateFailed || s.State == upstream.StateStarting || !s.Listed {
		u.Error = s.LastError
	}
	switch {
	case s.State == upstream.StateFailed, !s.Listed && u.Error != "":
		h.Status = StatusDegraded
	case !s.Listed && s.State == upstream.StateStarting && h.Status == StatusOK:
		h.Status = StatusStarting
	}
	h.Upstreams[s.Name] = u
}

// List returns the upstreams sorted by name.
func (h *Health) List() []UpstreamHealth {
	list := make([]UpstreamHealth, 0, len(h.Upstreams))
	for name, u := range h.Upstreams {
		u.Name = name
		list = append(list, u)
	}
	slices.SortFunc(list, func(a, b UpstreamHealth) int { return cmp.Compare(a.Name, b.Name) })
	return list
}

// complete adds to the state of a server what the lock says of it.
func (h *Health) complete(d *definitions.Lock, server string) {
	s, u := d.Summary(server), h.Upstreams[server]
	u.Differs, u.Held = s.Differs, s.Held
	if s.Note != "" && (u.Note == "" || s.Refused) {
		u.Note = s.Note
	}
	if s.Refused && u.Error == "" {
		u.State = lockfile.StateRefused
		h.Status = StatusDegraded
	}
	h.Upstreams[server] = u
}

// totals returns the figures of a gateway that are not counted by event.
func (g *Gateway) totals() metrics.Totals {
	return metrics.Totals{
		Version: g.Run.Version,
		Tokens: func() (read, raw int64) {
			u := g.Calls.state.Stats("").Total
			return u.Tokens.Read, u.Tokens.Raw
		},
		Uncounted: func() int64 { return g.Calls.state.Stats("").Total.Uncounted },
		Sessions:  g.Calls.state.Sessions,
		Artifacts: func() (count int, bytes int64) {
			u := g.Data.Results.UsageOfAll()
			return u.Count, u.Bytes
		},
		Upstreams: func() map[string]metrics.UpstreamFigures {
			figures := map[string]metrics.UpstreamFigures{}
			for _, s := range g.manager.Status() {
				figures[s.Name] = metrics.UpstreamFigures{State: string(s.State), Restarts: s.Restarts}
			}
			return figures
		},
		Tools:   func() int { return g.Catalog.Snapshot().Catalog.Kinds()[primitive.KindTool] },
		Cluster: g.Store.Figures(), Stream: g.Store.StreamFigures(), Syslog: g.opts.Audit.SinkFigures(),
	}
}
