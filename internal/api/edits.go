package api

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"github.com/weir-mcp/weir/internal/audit"
	"github.com/weir-mcp/weir/internal/identity"
	"github.com/weir-mcp/weir/mcp"
)

// ErrChanged is the error for a change of a configuration that is another one than the caller has
// seen. The answer has the status 409.
var ErrChanged = errors.New("the configuration has changed since you saw it: look at it again")

// Edits change the servers of the configuration file. The methods are called concurrently. Each
// change is for the file with the given tag, waits until the gateway uses the new file, and can be
// taken back by weir undo. No answer has a secret.
type Edits interface {
	// Entry returns the entry of a server.
	Entry(name string) (Entry, error)
	// Plan plans to add servers and changes nothing.
	Plan(Addition) (Edited, error)
	// Add adds servers.
	Add(ctx context.Context, tag string, a Addition) (Edited, error)
	// Amend changes the entry of a server.
	Amend(ctx context.Context, tag, name string, change json.RawMessage) (Edited, error)
	// Remove takes a server out.
	Remove(ctx context.Context, tag, name string) (Edited, error)
}

// An Entry is the entry of a server in the configuration.
type Entry struct {
	Name  string          `json:"name"`
	File  string          `json:"file"`
	Tag   string          `json:"tag"` // of the file, for If-Match
	Entry json.RawMessage `json:"entry"`
}

// An Addition describes servers.
type Addition struct {
	// Text is a URL, a command line, or servers in the form of a client: JSON, TOML or YAML.
	Text string `json:"text"`
	// Name is the name of a single server; "" takes the one that the text suggests.
	Name string `json:"name,omitempty"`
	// Plan plans and changes nothing.
	Plan bool `json:"plan,omitempty"`
}

// An amendment is a change of an entry.
type amendment struct {
	// Change is a merge patch.
	Change json.RawMessage `json:"change"`
}

// Edited is a change of the configuration, or the plan of one.
type Edited struct {
	File    string          `json:"file"`
	Tag     string          `json:"tag"` // of the file, for If-Match
	Adds    []PlannedServer `json:"adds"`
	Stay    []PlannedServer `json:"stay"`    // servers that weir does not take
	Secrets []string        `json:"secrets"` // names that go into the store
	Notes   []string        `json:"notes"`
	// Operation is the number for weir undo; 0 for a plan, and for a change of nothing.
	Operation int `json:"operation,omitempty"`
	// Servers are the changed servers once the gateway uses the new file.
	Servers []Server `json:"servers"`
	// Problem says why the gateway does not use the new file.
	Problem string `json:"problem,omitempty"`
}

// A PlannedServer is a server of a plan.
type PlannedServer struct {
	Name   string `json:"name"`
	Starts string `json:"starts,omitempty"`
	Why    string `json:"why,omitempty"`
}

// An editor serves the paths that change the configuration.
type editor struct{ o *Options }

// edits returns what changes the configuration.
func (a *editor) edits() (Edits, error) {
	if a.o.Edits != nil {
		if e := a.o.Edits(); e != nil {
			return e, nil
		}
	}
	return nil, mcp.Errorf(mcp.KindNotFound, "this gateway has no configuration file that it could change")
}

// tagOf returns the tag that If-Match names.
func tagOf(r *http.Request) (string, error) {
	tag := strings.Trim(r.Header.Get("If-Match"), `" `)
	if tag == "" || tag == "*" {
		return "", mcp.Errorf(mcp.KindInvalidRequest, "a change of the configuration needs the header If-Match with the tag of the file that you have seen")
	}
	return tag, nil
}

// configured serves servers/{name}/entry.
func (a *editor) configured(w http.ResponseWriter, r *http.Request) error {
	e, err := a.edits()
	if err != nil {
		return err
	}
	entry, err := e.Entry(r.PathValue("name"))
	if err != nil {
		return err
	}
	w.Header().Set("ETag", `"`+entry.Tag+`"`)
	return write(w, entry)
}

// addServers serves servers for POST.
func (a *editor) addServers(w http.ResponseWriter, r *http.Request) error {
	var given Addition
	if err := decode(w, r, &given); err != nil {
		return err
	}
	if given.Plan {
		e, err := a.edits()
		if err != nil {
			return err
		}
		planned, err := e.Plan(given)
		if err != nil {
			return err
		}
		return write(w, planned)
	}
	return a.edit(w, r, "adds servers to the configuration", func(e Edits, tag string) (Edited, error) { return e.Add(r.Context(), tag, given) })
}

// amendServer serves servers/{name} for PATCH.
func (a *editor) amendServer(w http.ResponseWriter, r *http.Request) error {
	var given amendment
	if err := decode(w, r, &given); err != nil {
		return err
	}
	return a.edit(w, r, "changes the entry of the server", func(e Edits, tag string) (Edited, error) {
		return e.Amend(r.Context(), tag, r.PathValue("name"), given.Change)
	})
}

// removeServer serves servers/{name} for DELETE.
func (a *editor) removeServer(w http.ResponseWriter, r *http.Request) error {
	if err := decode(w, r, &struct{}{}); err != nil {
		return err
	}
	return a.edit(w, r, "takes the server out of the configuration", func(e Edits, tag string) (Edited, error) {
		return e.Remove(r.Context(), tag, r.PathValue("name"))
	})
}

// edit makes a change of the file that the caller has seen.
func (a *editor) edit(w http.ResponseWriter, r *http.Request, what string, change func(e Edits, tag string) (Edited, error)) error {
	e, err := a.edits()
	if err != nil {
		return err
	}
	tag, err := tagOf(r)
	if err != nil {
		return err
	}
	a.o.Logger.Info("an operator "+what, "upstream", r.PathValue("name"), "principal", identity.From(r.Context()).Principal)
	done, err := change(e, tag)
	if err != nil {
		return err
	}
	a.o.Operated(r.Context(), audit.Role, "", r.PathValue("name"), "", what)
	return write(w, done)
}
