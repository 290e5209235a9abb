package api

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/weir-mcp/weir/internal/audit"
	"github.com/weir-mcp/weir/internal/identity"
	"github.com/weir-mcp/weir/internal/text"
	"github.com/weir-mcp/weir/internal/upstream/confined"
	"github.com/weir-mcp/weir/mcp"
)

// Servers are the servers of a gateway. Its methods are called concurrently.
type Servers interface {
	// Restart restarts a server and waits until it has been listed or has failed. A server that
	// fails is no error; the error is an *mcp.Error if the server cannot be restarted.
	Restart(ctx context.Context, name string) (Server, error)
	// List returns all servers in the order of the configuration, also disabled ones.
	List() []Server
	// Sandbox says how the program of a server is confined. ok is false for a server whose program the gateway does not start.
	Sandbox(name string) (c confined.Confinement, ok bool)
}

// A Server is one server of the gateway.
type Server struct {
	Name      string `json:"name"`
	State     string `json:"state"`
	Listed    bool   `json:"listed"` // its entries are known
	Tools     int    `json:"tools"`
	Resources int    `json:"resources"`
	Prompts   int    `json:"prompts"`
	Error     string `json:"error,omitempty"` // why it failed
	Note      string `json:"note,omitempty"`
	// TookMS is the time from the request to the answer of a restart, in milliseconds.
	TookMS int64 `json:"took_ms,omitempty"`
}

// List is the answer of servers.
type List struct {
	Servers []Server `json:"servers"`
}

// list serves servers.
func (a *API) list(w http.ResponseWriter, _ *http.Request) error {
	return write(w, List{append([]Server{}, a.o.Servers.List()...)})
}

// restartWait bounds the wait for a server that neither starts nor fails.
const restartWait = 90 * time.Second

// restart serves servers/{name}/restart.
func (a *API) restart(w http.ResponseWriter, r *http.Request) error {
	if err := decode(w, r, &struct{}{}); err != nil {
		return err
	}
	name := r.PathValue("name")
	if err := a.check(name); err != nil {
		return err
	}
	a.o.Operated(r.Context(), audit.Role, "", name, "", "restarts the server")
	a.o.Logger.Info("an operator restarts a server", "upstream", name, "principal", identity.From(r.Context()).Principal)
	ctx, cancel := context.WithTimeout(r.Context(), restartWait)
	defer cancel()
	began := time.Now()
	s, err := a.o.Servers.Restart(ctx, name)
	if err != nil {
		return err
	}
	s.TookMS = time.Since(began).Milliseconds()
	return write(w, s)
}

// listedNames bounds the names in an error.
const listedNames = 20

// check returns an error for a name of no server, with the nearest names.
func (a *API) check(name string) error {
	var names []string
	for _, s := range a.o.Servers.List() {
		names = append(names, s.Name)
	}
	if slices.Contains(names, name) {
		return nil
	}
	slices.Sort(names)
	shown := text.Line(name, 80)
	if near := nearest(name, names); len(near) > 0 {
		return mcp.Errorf(mcp.KindNotFound, "there is no server %q; did you mean %s?", shown, strings.Join(near, " or "))
	}
	if len(names) > listedNames {
		names = append(names[:listedNames], "…")
	}
	return mcp.Errorf(mcp.KindNotFound, "there is no server %q; there are: %s", shown, strings.Join(names, ", "))
}

// nearest returns up to three names that could be meant by another one, the nearest first.
func nearest(name string, names []string) []string {
	const longest = 64 // Distance takes the product of both lengths
	if len(name) > longest {
		return nil
	}
	type near struct {
		name     string
		distance int
	}
	var found []near
	for _, one := range names {
		if len(one) > longest {
			continue
		}
		d := text.Distance(strings.ToLower(name), strings.ToLower(one))
		if d <= max(1, min(len(name), len(one))/3) {
			found = append(found, near{one, d})
		}
	}
	slices.SortStableFunc(found, func(a, b near) int { return cmp.Compare(a.distance, b.distance) })
	var out []string
	for _, n := range found[:min(3, len(found))] {
		out = append(out, n.name)
	}
	return out
}
