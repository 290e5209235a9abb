package api

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/weir-mcp/weir/internal/audit"
	"github.com/weir-mcp/weir/internal/identity"
	"github.com/weir-mcp/weir/internal/text"
	"github.com/weir-mcp/weir/internal/upstream/confined"
	"github.com/weir-mcp/weir/mcp"
)

// Checks look at the gateway, its servers and its machine. No answer has a secret.
type Checks interface {
	// Doctor returns the findings of weir doctor. name names the server or client to look at; "" looks
	// at all. It takes some seconds. A call while another one runs is an error. The ID of a finding about a
	// client starts with "client-".
	Doctor(ctx context.Context, name string) ([]Finding, error)
	// Mend looks again, and mends a finding if it is still as the caller has seen it. An error
	// says that nothing has changed; Mended.Failed has the steps that failed after a change.
	Mend(ctx context.Context, m Mending) (Mended, error)
}

// A Mending names a finding and its repair, as the caller has seen them.
type Mending struct {
	ID    string `json:"id"`
	Thing string `json:"thing"`
	Mends string `json:"mends"`
}

// Mended is the outcome of a repair.
type Mended struct {
	Mends string `json:"mends"`
	// Operation is the number for weir undo; 0 if there is no way back.
	Operation int `json:"operation,omitempty"`
	// Failed says which later step failed. The change stands, and Operation takes it back.
	Failed string `json:"failed,omitempty"`
}

// A Finding is the result of one check.
type Finding struct {
	ID    string `json:"id"`
	Level string `json:"level"` // ok, warn or fail
	Thing string `json:"thing"`
	Text  string `json:"text"`
	// Owner is who can mend it, and Fix how.
	Owner string `json:"owner,omitempty"`
	Fix   string `json:"fix,omitempty"`
	// Lines are the last lines of a program's output.
	Lines []string `json:"lines,omitempty"`
	// Mends is the change that weir doctor --fix would make; "" if a person has to mend it.
	Mends string `json:"mends,omitempty"`
}

// findings is the answer of doctor.
type findings struct {
	Findings []Finding `json:"findings"`
}

// A checkup serves the paths of checks.
type checkup struct{ o *Options }

// routes are the routes of operators that look at the machine.
func (a *checkup) routes() []route {
	return []route{
		{method: http.MethodGet, path: "doctor", right: mayOperate, summary: "The findings of weir doctor, within some seconds", query: []parameter{{"name", "the only server or client to look at"}}, answer: findings{}, serve: a.doctor},
		{method: http.MethodGet, path: "servers/{name}/sandbox", right: mayOperate, summary: "What confines the program of a server, and the hosts that it asked for", answer: confined.Confinement{}, serve: a.sandbox},
		{method: http.MethodPost, path: "doctor/fix", right: mayOperate, summary: "Do what a finding of the doctor says that it mends", body: Mending{}, answer: Mended{}, serve: a.mend},
		{method: http.MethodGet, path: "config", right: mayOperate, summary: "The configuration in effect, with its secrets hidden, and where each value comes from", answer: configAnswer{},
			query: append([]parameter{{"key", "only keys that start with it"}, {"set", "1: without defaults"}}, paged...), serve: a.config},
	}
}

// doctor serves doctor.
func (a *checkup) doctor(w http.ResponseWriter, r *http.Request) error {
	checks := a.o.Machine.Checks
	if checks == nil {
		return mcp.Errorf(mcp.KindNotFound, "this gateway has no configuration file to look at")
	}
	name := r.URL.Query().Get("name")
	if len(name) > 200 {
		return mcp.Errorf(mcp.KindInvalidParams, "%q is no name", text.Line(name, 40))
	}
	found, err := checks.Doctor(r.Context(), name)
	if err != nil {
		return err
	}
	shown := append([]Finding{}, found...)
	if !owner(r.Context()) {
		shown = slices.DeleteFunc(shown, ofClient)
	}
	if name != "" && len(shown) == 0 && len(found) > 0 {
		return mcp.Errorf(mcp.KindNotFound, "%q is no server of this gateway. Findings about clients are for the user who runs it: open the console with weir open, or run weir doctor", text.Line(name, 40))
	}
	return write(w, findings{shown})
}

// sandbox serves servers/{name}/sandbox.
func (a *checkup) sandbox(w http.ResponseWriter, r *http.Request) error {
	c, ok := a.o.Servers.Sandbox(r.PathValue("name"))
	if !ok {
		return mcp.Errorf(mcp.KindNotFound, "this gateway starts no program for a server %q", text.Line(r.PathValue("name"), 80))
	}
	return write(w, c)
}

// mend serves doctor/fix.
func (a *checkup) mend(w http.ResponseWriter, r *http.Request) error {
	var given Mending
	if err := decode(w, r, &given); err != nil {
		return err
	}
	checks := a.o.Machine.Checks
	switch {
	case checks == nil:
		return mcp.Errorf(mcp.KindNotFound, "this gateway has no configuration file to look at")
	case given.ID == "" || given.Thing == "" || given.Mends == "":
		return mcp.Errorf(mcp.KindInvalidParams, "id, thing and mends must be copied from a finding with mends")
	case ofClient(Finding{ID: given.ID}) && !owner(r.Context()):
		return mcp.Errorf(mcp.KindPermissionDenied, "this changes a file of the user who runs the gateway: open the console with weir open, or run weir doctor --fix on that machine, as that user")
	}
	what := "mends what the doctor found: " + text.Line(given.Mends, 200)
	a.o.Logger.Info("an operator "+what, "principal", identity.From(r.Context()).Principal)
	done, err := checks.Mend(r.Context(), given)
	if err != nil {
		return err
	}
	a.o.Operated(r.Context(), audit.Role, "", "", "", (&Edited{Failed: done.Failed}).told(what))
	return write(w, done)
}

// ofClient reports whether a finding is about MCP clients. It names files, commands and URLs of the user
// who runs the gateway, which are not for operators with a token.
func ofClient(f Finding) bool { return strings.HasPrefix(f.ID, "client-") }
