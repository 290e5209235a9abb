package api

import (
	"context"
	"net/http"
	"strings"

	"github.com/weir-mcp/weir/internal/audit"
	"github.com/weir-mcp/weir/internal/identity"
	"github.com/weir-mcp/weir/mcp"
)

// Clients are the MCP clients of the user who runs the gateway. The methods are called concurrently.
// Each change can be taken back by weir undo. An error says that nothing has changed; Edited.Failed
// has the steps that failed after a change. No answer has a secret.
type Clients interface {
	// Found returns the clients on the machine.
	Found(ctx context.Context) ([]Client, error)
	// Plan plans a change of clients and changes nothing.
	Plan(ctx context.Context, w Wiring) (Wired, error)
	// Wire makes a change of the files that have the given tag.
	Wire(ctx context.Context, tag string, w Wiring) (Wired, error)
}

// A Client is a file of an MCP client.
type Client struct {
	ID    string `json:"id"`
	Name  string `json:"name"`
	State string `json:"state"` // wired, not wired, no file, paste or unreadable
	// Servers is the number of servers in the file, without weir.
	Servers int    `json:"servers"`
	File    string `json:"file,omitempty"`
	Error   string `json:"error,omitempty"`
	// Hearsay is set for a client that weir knows only from third parties.
	Hearsay bool `json:"hearsay,omitempty"`
}

// The kinds of a Wiring.
const (
	WireImport     = "import"     // the servers of clients come into the configuration
	WireConnect    = "connect"    // the same, and weir stands in their place
	WireDisconnect = "disconnect" // weir goes, and the client's servers come back
)

// A Wiring is a change of clients.
type Wiring struct {
	// Do is import, connect or disconnect.
	Do string `json:"do"`
	// Clients are ids of clients. None means all, for an import.
	Clients []string `json:"clients,omitempty"`
	// Keep leaves the client's own servers where they are, for connect.
	Keep bool `json:"keep,omitempty"`
	// Plan plans and changes nothing.
	Plan bool `json:"plan,omitempty"`
}

// Wired is a change of clients, or the plan of one. Its tag is made of the configuration and the
// clients' files.
type Wired struct {
	Edited
	Files []WiredFile `json:"files"`
	// Advice has the steps in clients after which they read their files again.
	Advice []string `json:"advice"`
}

// A WiredFile is the change of one file of a client: names of entries that come, go and come back.
type WiredFile struct {
	File   string   `json:"file"`
	Client string   `json:"client"`
	New    bool     `json:"new"`
	Adds   []string `json:"adds"`
	Takes  []string `json:"takes"`
	Brings []string `json:"brings"`
}

// clientsAnswer is the answer of clients.
type clientsAnswer struct {
	Clients []Client `json:"clients"`
}

// A wirer serves the paths of clients.
type wirer struct{ o *Options }

// routes are the routes of the user who runs the gateway.
func (a *wirer) routes() []route {
	return []route{
		{method: http.MethodGet, path: "clients", right: mayOwn, summary: "The MCP clients of the user who runs the gateway", answer: clientsAnswer{}, serve: a.found},
		{method: http.MethodPost, path: "clients", right: mayOwn, summary: "Import the servers of clients, connect clients or disconnect them, or plan to; needs If-Match unless it plans", body: Wiring{}, answer: Wired{}, serve: a.wire},
	}
}

func (a *wirer) clients() (Clients, error) {
	if c := a.o.Machine.Clients; c != nil {
		return c, nil
	}
	return nil, mcp.Errorf(mcp.KindNotFound, "this gateway connects no clients: it has no configuration file, or runs within another program")
}

// found serves clients.
func (a *wirer) found(w http.ResponseWriter, r *http.Request) error {
	c, err := a.clients()
	if err != nil {
		return err
	}
	all, err := c.Found(r.Context())
	if err != nil {
		return err
	}
	return write(w, clientsAnswer{append([]Client{}, all...)})
}

// wire serves clients for POST.
func (a *wirer) wire(w http.ResponseWriter, r *http.Request) error {
	var given Wiring
	if err := decode(w, r, &given); err != nil {
		return err
	}
	c, err := a.clients()
	if err != nil {
		return err
	}
	switch {
	case given.Do != WireImport && given.Do != WireConnect && given.Do != WireDisconnect:
		return mcp.Errorf(mcp.KindInvalidParams, "do must be import, connect or disconnect")
	case given.Do != WireImport && len(given.Clients) == 0:
		return mcp.Errorf(mcp.KindInvalidParams, "clients must name a client to %s", given.Do)
	}
	if given.Plan {
		planned, err := c.Plan(r.Context(), given)
		if err != nil {
			return err
		}
		return write(w, planned)
	}
	tag, err := tagOf(r)
	if err != nil {
		return err
	}
	what := strings.Join(append([]string{given.Do + "s"}, given.Clients...), " ")
	a.o.Logger.Info("the user of the gateway changes clients", "what", what, "principal", identity.From(r.Context()).Principal)
	done, err := c.Wire(r.Context(), tag, given)
	if err != nil {
		return err
	}
	a.o.Operated(r.Context(), audit.Role, "", "", "", done.told(what))
	return write(w, done)
}
