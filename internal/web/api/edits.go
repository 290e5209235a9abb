package api

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"

	"github.com/weir-mcp/weir/internal/audit"
	"github.com/weir-mcp/weir/internal/identity"
	"github.com/weir-mcp/weir/internal/text"
	"github.com/weir-mcp/weir/mcp"
)

// ErrChanged is the error for a change of a configuration that is another one than the caller has
// seen. The answer has the status 409.
var ErrChanged = errors.New("the configuration has changed since you saw it: look at it again")

// ErrPublished is the error for a server of the registry that is another one than the plan has shown.
// The answer has the status 409.
var ErrPublished = errors.New("the registry has another answer for this server than the plan that you saw: plan it again, and look at it")

// Edits change the servers of the configuration file. The methods are called concurrently. Each
// change is for the file with the given tag, waits until the gateway uses the new file, and can be
// taken back by weir undo. An error says that nothing has changed; Edited.Failed has the steps that failed
// after a change. No answer has a secret.
type Edits interface {
	// Entry returns the entry of a server.
	Entry(name string) (Entry, error)
	// Plan plans to add servers and changes nothing.
	Plan(context.Context, Addition) (Edited, error)
	// Add adds servers. For a server of the registry, tag is the tag of its plan.
	Add(ctx context.Context, tag string, a Addition) (Edited, error)
	// Amend changes the entry of a server.
	Amend(ctx context.Context, tag, name string, change json.RawMessage) (Edited, error)
	// Remove takes a server out.
	Remove(ctx context.Context, tag, name string) (Edited, error)
	// Undo takes back a change by its number. own says that the caller is the user who runs the
	// gateway. Other operators take back changes of the configuration only.
	Undo(ctx context.Context, n int, own bool) (Edited, error)
}

// A Registry has servers that others have published.
type Registry interface {
	// Search returns the servers that fit some words, the best first. They are texts of strangers.
	Search(ctx context.Context, words string) (Published, error)
}

// A Machine has the operations by which operators change the gateway's machine. A member may be nil.
type Machine struct {
	Edits    Edits
	Registry Registry
	Checks   Checks
	Clients  Clients
}

// Published are servers of a registry.
type Published struct {
	Servers []PublishedServer `json:"servers"`
	// Age is the age of the answer in seconds, if the registry could not be reached; else 0.
	Age int64 `json:"age"`
}

// A PublishedServer is a server of a registry.
type PublishedServer struct {
	ID          string `json:"id"`
	Title       string `json:"title,omitempty"`
	Description string `json:"description"`
	Version     string `json:"version"`
}

// An Entry is the entry of a server in the configuration.
type Entry struct {
	Name  string          `json:"name"`
	File  string          `json:"file"`
	Tag   string          `json:"tag"` // of the file, for If-Match
	Entry json.RawMessage `json:"entry"`
}

// An Addition describes servers: by a text, or as one of the registry.
type Addition struct {
	// Text is a URL, a command line, or servers in the form of a client: JSON, TOML or YAML.
	Text string `json:"text,omitempty"`
	// Published is the id of a server of the registry, and Answers are the answers to the questions of
	// its plan, by their ids.
	Published string            `json:"published,omitempty"`
	Answers   map[string]string `json:"answers,omitempty"`
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
	Tag     string          `json:"tag"` // of the file and the answer of the registry, for If-Match
	Adds    []PlannedServer `json:"adds"`
	Stay    []PlannedServer `json:"stay"`    // servers that weir does not take
	Secrets []string        `json:"secrets"` // names that go into the store
	Notes   []string        `json:"notes"`
	// Questions are the settings that a server of the registry needs. A plan with a required one unanswered adds
	// nothing.
	Questions []Question `json:"questions,omitempty"`
	// Operation is the number for weir undo; 0 for a plan, for a change of nothing, and for an undo that
	// removed secrets, which needs them for its way back.
	Operation int `json:"operation,omitempty"`
	// Servers are the changed servers once the gateway uses the new file.
	Servers []Server `json:"servers"`
	// Problem says why the gateway does not use the new file.
	Problem string `json:"problem,omitempty"`
	// Failed says which later step failed, after files had changed. The change stands, and Operation
	// takes it back.
	Failed string `json:"failed,omitempty"`
}

// A Question is a setting of a server of the registry.
type Question struct {
	ID          string   `json:"id"`
	Description string   `json:"description"`
	Default     string   `json:"default,omitempty"`
	Choices     []string `json:"choices,omitempty"`
	Secret      bool     `json:"secret"`
	Needed      bool     `json:"needed"`
}

// A PlannedServer is a server of a plan.
type PlannedServer struct {
	Name   string `json:"name"`
	Starts string `json:"starts,omitempty"`
	Why    string `json:"why,omitempty"`
}

// An editor serves the paths that change the configuration.
type editor struct{ o *Options }

// edits returns the routes that change the configuration.
func (a *editor) edits() (Edits, error) {
	if e := a.o.Machine.Edits; e != nil {
		return e, nil
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
		planned, err := e.Plan(r.Context(), given)
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
	a.o.Operated(r.Context(), audit.Role, "", r.PathValue("name"), "", done.told(what))
	return write(w, done)
}

// told returns the detail of a change for the audit log.
func (e *Edited) told(what string) string {
	if e.Failed != "" {
		return what + "; a later step failed: " + text.Line(e.Failed, 300)
	}
	return what
}

// undo serves operations/{n}/undo.
func (a *editor) undo(w http.ResponseWriter, r *http.Request) error {
	if err := decode(w, r, &struct{}{}); err != nil {
		return err
	}
	n, err := strconv.Atoi(r.PathValue("n"))
	if err != nil || n < 1 {
		return mcp.Errorf(mcp.KindInvalidParams, "%q is no number of an operation", text.Line(r.PathValue("n"), 40))
	}
	e, err := a.edits()
	if err != nil {
		return err
	}
	what := "takes back operation " + strconv.Itoa(n)
	a.o.Logger.Info("an operator "+what, "principal", identity.From(r.Context()).Principal)
	done, err := e.Undo(r.Context(), n, owner(r.Context()))
	if err != nil {
		return err
	}
	a.o.Operated(r.Context(), audit.Role, "", "", "", done.told(what))
	return write(w, done)
}

// published serves registry.
func (a *editor) published(w http.ResponseWriter, r *http.Request) error {
	words := strings.TrimSpace(r.URL.Query().Get("query"))
	if words == "" || len(words) > 200 {
		return mcp.Errorf(mcp.KindInvalidParams, "the query must have 1 to 200 characters")
	}
	shelf := a.o.Machine.Registry
	if shelf == nil {
		return mcp.Errorf(mcp.KindNotFound, "this gateway asks no registry")
	}
	found, err := shelf.Search(r.Context(), words)
	if err != nil {
		return err
	}
	return write(w, found)
}
