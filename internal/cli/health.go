package cli

import (
	"math"
	"path/filepath"
	"time"

	"github.com/weir-mcp/weir/internal/rawjson"
	"github.com/weir-mcp/weir/internal/upstream"
)

// serverName is what weir calls itself in MCP and in /healthz.
const serverName = "weir"

// States of a gateway as a whole.
const (
	statusOK       = "ok"       // every upstream can be called
	statusStarting = "starting" // some upstreams have not answered for the first time
	statusDegraded = "degraded" // some upstreams cannot be called
	statusStopping = "stopping" // running calls are being finished
)

// health is the answer of /healthz, and what weir ls shows.
type health struct {
	Status    string                    `json:"status"`
	Uptime    float64                   `json:"uptime"` // seconds
	Name      string                    `json:"name"`
	Version   string                    `json:"version"`
	Mode      string                    `json:"mode"`
	Config    string                    `json:"config,omitempty"`
	Upstreams map[string]upstreamHealth `json:"upstreams"`
	Hub       *hubHealth                `json:"hub,omitempty"`
}

// upstreamHealth is the state of one upstream.
type upstreamHealth struct {
	Name      string `json:"name"`
	State     string `json:"state"`
	Transport string `json:"transport"`
	Namespace string `json:"namespace,omitempty"`
	Server    string `json:"server,omitempty"`
	Version   string `json:"version,omitempty"` // of the server
	Protocol  string `json:"protocol,omitempty"`
	Tools     int    `json:"tools"`
	Resources int    `json:"resources"`
	Prompts   int    `json:"prompts"`
	Calls     int64  `json:"calls"`
	Errors    int64  `json:"errors"`
	InFlight  int64  `json:"in_flight"`
	Restarts  int64  `json:"restarts"`
	Pid       int    `json:"pid,omitempty"`
	Error     string `json:"error,omitempty"`
	Note      string `json:"note,omitempty"`  // of one that is starting, or left out
	Since     string `json:"since,omitempty"` // of State, RFC 3339
}

// health says how the gateway and its upstreams are.
func (e *engine) health() *health {
	c := e.config.Load()
	h := &health{
		Status: statusOK, Uptime: math.Round(time.Since(e.started).Seconds()*1000) / 1000,
		Name: serverName, Version: e.app.version, Mode: string(c.Mode), Upstreams: map[string]upstreamHealth{},
	}
	if path, err := filepath.Abs(c.Path()); err == nil && c.Path() != "" {
		h.Config = path
	}
	if f := e.file.Load(); f != nil {
		l := f.Listing()
		h.Upstreams[f.Name()] = upstreamHealth{
			Name: f.Name(), State: string(upstream.StateIdle), Transport: "file", Server: "catalog file",
			Tools: len(l.Tools), Resources: len(l.Resources) + len(l.ResourceTemplates), Prompts: len(l.Prompts),
		}
	}
	for _, s := range c.Servers {
		if why := c.Omitted(s.Name); why != "" {
			h.Upstreams[s.Name] = upstreamHealth{Name: s.Name, State: string(upstream.StateLeftOut), Transport: string(s.Type), Namespace: s.Namespace, Note: why}
		}
	}
	h.Hub = e.offices.health()
	for _, s := range e.manager.Status() {
		h.add(s)
	}
	return h
}

// add enters an upstream. One that is started again after a failure still says why
// it failed, because the next attempt may take as long as the last one; and one
// whose lists cannot be read says why it has no tools.
func (h *health) add(s upstream.Status) {
	u := upstreamHealth{
		Name: s.Name, State: string(s.State), Transport: string(s.Transport), Namespace: s.Namespace, Protocol: s.Version,
		Server: rawjson.Text(rawjson.Get(s.ServerInfo, "name")), Version: rawjson.Text(rawjson.Get(s.ServerInfo, "version")),
		Tools: s.Tools, Resources: s.Resources, Prompts: s.Prompts,
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
		h.Status = statusDegraded
	case !s.Listed && s.State == upstream.StateStarting && h.Status == statusOK:
		h.Status = statusStarting
	}
	h.Upstreams[s.Name] = u
}
