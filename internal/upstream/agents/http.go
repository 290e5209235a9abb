package agents

import (
	"encoding/json"
	"errors"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/net/address"
	"github.com/weir-mcp/weir/internal/net/guard"
	"github.com/weir-mcp/weir/internal/text/visible"
	"github.com/weir-mcp/weir/mcp"
)

const (
	// Path is the endpoint of registration: /agents, and /agents/{name}.
	Path = "/agents"

	maxBody     = 64 << 10
	maxInstance = 128
)

// registration is the body of a POST.
type registration struct {
	Name     string          `json:"name"`
	Instance string          `json:"instance"`
	Port     int             `json:"port"`
	URL      string          `json:"url"`
	Server   json.RawMessage `json:"server"`
}

// ServeHTTP implements http.Handler for /agents and /agents/{name}. A guard must have checked the
// caller; guard.Principal names it.
func (r *Registry) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	rest := strings.TrimPrefix(req.URL.EscapedPath(), Path)
	name, err := url.PathUnescape(strings.TrimPrefix(rest, "/"))
	switch {
	case err != nil || rest != "" && rest[0] != '/' || strings.Contains(name, "/"):
		guard.WriteError(w, http.StatusNotFound, "", mcp.Errorf(mcp.KindNotFound, "no such page: agents register at %s", Path))
	case name == "" && req.Method == http.MethodPost:
		r.servePost(w, req)
	case name == "" && req.Method == http.MethodGet:
		r.serveList(w, req)
	case name != "" && req.Method == http.MethodDelete:
		r.leave(guard.Principal(req.Context()), name, req.URL.Query().Get("instance"))
		w.WriteHeader(http.StatusNoContent)
	default:
		allow := "GET, POST"
		if name != "" {
			allow = "DELETE"
		}
		w.Header().Set("Allow", allow)
		guard.WriteError(w, http.StatusMethodNotAllowed, "", mcp.Errorf(mcp.KindInvalidRequest, "%s is not used here; allowed: %s", req.Method, allow))
	}
}

func (r *Registry) servePost(w http.ResponseWriter, req *http.Request) {
	// A form of a page can send any other type without asking (CORS).
	if t, _, _ := mime.ParseMediaType(req.Header.Get("Content-Type")); t != "application/json" {
		guard.WriteError(w, http.StatusUnsupportedMediaType, "", mcp.Errorf(mcp.KindInvalidRequest, "a registration needs Content-Type: application/json, not %.80q", t))
		return
	}
	data, err := guard.ReadBody(w, req, maxBody, nil, nil)
	var a Agent
	if err == nil {
		a, err = r.read(req, data)
	}
	if err == nil {
		err = r.register(req.Context(), a)
	}
	if err != nil {
		k, _ := mcp.KindOf(err)
		code := k.Info().HTTP
		if errors.Is(err, errTaken) {
			code = http.StatusConflict
		}
		guard.WriteError(w, code, "", err)
		return
	}
	granted := map[string]any{"leaseMs": r.o.Lease.Milliseconds()}
	if secrets := r.o.Secrets(a.Name, a.Instance); len(secrets) > 0 {
		invocation := map[string]any{"alg": "HS256", "secret": secrets[0]}
		if len(secrets) > 1 {
			invocation["others"] = secrets[1:]
		}
		granted["invocation"] = invocation
	}
	writeJSON(w, granted)
}

// read reads a registration.
func (r *Registry) read(req *http.Request, data []byte) (Agent, error) {
	bad := func(format string, args ...any) (Agent, error) {
		return Agent{}, mcp.Errorf(mcp.KindInvalidParams, format, args...)
	}
	var g registration
	if err := json.Unmarshal(data, &g); err != nil {
		return bad(`a registration is {"name":…,"instance":…,"port":…} or with "url" in place of "port": %v`, err)
	}
	switch {
	case g.Instance == "" || len(g.Instance) > maxInstance:
		return bad("instance must be a random text of up to %d bytes, made anew by each start of the agent", maxInstance)
	case (g.URL == "") == (g.Port == 0):
		return bad("give either url, the agent's MCP endpoint, or port")
	case g.Port < 0 || g.Port > 65535:
		return bad("port must be from 1 to 65535, not %d", g.Port)
	}
	from, known := address.Source(req.Header, req.RemoteAddr)
	if g.Port > 0 {
		if g.URL, known = portURL(from, known, g.Port); !known {
			return bad("the address of the agent is not known here, as a proxy has sent its registration on: give url in place of port (weir agent --advertise), with a host that agents.hosts of the router has")
		}
	}
	if _, err := config.NewServer(g.Name, g.URL); err != nil {
		return bad("%v", err)
	}
	if routersOwn(req, g.URL) {
		return bad("%s is a route of this router, and would have each request go round: give the agent's own address", g.URL)
	}
	if !rawjson.IsObject(g.Server) {
		g.Server = nil
	}
	return Agent{Name: g.Name, URL: g.URL, Principal: guard.Principal(req.Context()), Server: g.Server, Instance: g.Instance, From: from}, nil
}

// listedAgent is an agent in the list.
type listedAgent struct {
	Name   string          `json:"name"`
	URL    string          `json:"url"`
	Source Source          `json:"source"`
	Server json.RawMessage `json:"server,omitempty"`
	Since  *time.Time      `json:"since,omitempty"`
	Until  *time.Time      `json:"until,omitempty"`
}

// serveList lists the agents under names that the caller may use to register.
func (r *Registry) serveList(w http.ResponseWriter, req *http.Request) {
	list := []listedAgent{}
	for _, a := range r.Agents() {
		if !r.o.May(guard.Principal(req.Context()), a.Name) {
			continue
		}
		t := listedAgent{Name: a.Name, URL: a.URL, Source: a.Source, Server: a.Server}
		if !a.Since.IsZero() {
			t.Since, t.Until = &a.Since, &a.Until
		}
		list = append(list, t)
	}
	writeJSON(w, map[string]any{"agents": list})
}

func writeJSON(w http.ResponseWriter, v any) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	if raw, err := json.Marshal(v); err == nil { // of weir's own types: there is no error
		_, _ = w.Write(append(visible.JSON(raw), '\n')) // the agent may be gone
	}
}
