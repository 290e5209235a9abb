package console

import (
	"cmp"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"io/fs"
	"log/slog"
	"net/http"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/weir-mcp/weir/internal/artifact"
	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/mcp"
)

// Path is the URL path of the page; DataPath is the prefix of its data.
const (
	Path     = "/console"
	DataPath = "/console/data/"
)

// Gateway describes the running gateway. Its methods are called concurrently. The caller owns the
// results.
type Gateway interface {
	// Overview returns the state of the gateway and all upstreams in display order. Token counts
	// are those that the viewer of a request may see.
	Overview(ctx context.Context) Overview
	// SeesAll reports whether the viewer of a request sees the calls of all principals, not only the
	// viewer's own.
	SeesAll(ctx context.Context) bool
	// Offices returns the connected members, nil if there are no offices.
	Offices() *Offices
}

// Catalog describes the catalog. Its methods are called concurrently.
type Catalog interface {
	// Search returns at most n cards of a kind for a query, ranked as agents get them.
	Search(ctx context.Context, kind catalog.Kind, query string, n int) []catalog.Card
	// Children returns the cards at a path, as in catalog.Catalog.ChildrenOf.
	Children(ctx context.Context, kind catalog.Kind, path string) ([]catalog.Card, error)
	// Entry returns an entry, which must not be changed, and its path.
	Entry(ctx context.Context, id string) (e *catalog.Entry, path string, ok bool)
}

// Artifacts gives access to a principal's stored results. Its methods are called concurrently.
type Artifacts interface {
	// List returns the principal's artifacts, newest first.
	List(principal string) []artifact.Held
	// View returns the part of an artifact that a selector of tool_view selects. Its error is shown
	// to the viewer.
	View(ctx context.Context, principal, handle string, selector json.RawMessage) (text, notice string, err error)
}

// Overview is the state of a gateway.
type Overview struct {
	Name      string     `json:"name"`
	Version   string     `json:"version"`
	Status    string     `json:"status"` // as in /healthz
	Mode      string     `json:"mode"`
	Uptime    float64    `json:"uptime"` // seconds
	Tools     int        `json:"tools"`
	Resources int        `json:"resources"`
	Prompts   int        `json:"prompts"`
	Usage     Usage      `json:"usage"`
	Upstreams []Upstream `json:"upstreams"` // Data sends a page of them
}

// Usage is the cost of calls so far, in cl100k_base tokens.
type Usage struct {
	// true: the viewer's open sessions only; false: all sessions since the start
	Own      bool  `json:"own"`
	Sessions int   `json:"sessions"`
	Calls    int64 `json:"calls"`
	Failed   int64 `json:"failed"`
	Read     int64 `json:"tokens_read"`
	Raw      int64 `json:"tokens_raw"`
	Pending  int64 `json:"pending"` // results that are still being counted
}

// Upstream is one server behind the gateway, with the member names of /healthz.
type Upstream struct {
	Name      string `json:"name"`
	State     string `json:"state"`
	Transport string `json:"transport"`
	Server    string `json:"server,omitempty"`
	Version   string `json:"version,omitempty"`
	Protocol  string `json:"protocol,omitempty"`
	Tools     int    `json:"tools"`
	Resources int    `json:"resources"`
	Prompts   int    `json:"prompts"`
	Calls     int64  `json:"calls"`
	Errors    int64  `json:"errors"`
	InFlight  int64  `json:"in_flight"`
	Restarts  int64  `json:"restarts"`
	Error     string `json:"error,omitempty"`
	Since     string `json:"since,omitempty"` // of State, RFC 3339
}

// Offices are the hub's members and the Computers whose servers are upstreams.
type Offices struct {
	Hub         bool       `json:"hub"` // there is a hub here; else the Computers are of hubs elsewhere
	Connections int        `json:"connections"`
	Members     []Member   `json:"members"`
	Computers   []Computer `json:"computers"`
}

// Member is a member of an office of the hub.
type Member struct {
	Office    string    `json:"office"`
	Name      string    `json:"name"`
	Role      string    `json:"role"`
	Dialect   string    `json:"dialect"`
	Principal string    `json:"principal"`
	Transport string    `json:"transport"`
	Since     time.Time `json:"since"`
	InFlight  int       `json:"in_flight"`
	Proven    bool      `json:"proven"`
}

// Computer is a Computer and what it offers.
type Computer struct {
	Name    string   `json:"name"`
	Servers []Server `json:"servers"`
}

// Server is one MCP server of a Computer.
type Server struct {
	Name     string `json:"name"`
	Upstream string `json:"upstream"` // its name here
	State    string `json:"state"`
	Tools    int    `json:"tools"`
}

// Options configure a Console. Logger and Patience are optional.
type Options struct {
	Gateway   Gateway
	Catalog   Catalog
	Artifacts Artifacts
	// Feed is what Data shows of calls.
	Feed *Feed
	// Patience is the time that a browser has to read what it is sent, before it is disconnected; 0
	// means 10 s.
	Patience time.Duration
	// Logger receives failures; nil discards them.
	Logger *slog.Logger
}

// Console serves the page and its data. It is safe for concurrent use.
type Console struct {
	o     Options
	files func() map[string]file // read when the first is asked for
	data  map[string]http.HandlerFunc
	once  sync.Once
	done  chan struct{}
}

//go:embed web
var web embed.FS

// file is one file of the page.
type file struct {
	kind, tag string
	body      []byte
}

// New returns a Console. The caller closes it.
func New(o Options) *Console {
	o.Patience = cmp.Or(o.Patience, 10*time.Second)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	c := &Console{o: o, files: sync.OnceValue(readFiles), done: make(chan struct{})}
	c.data = map[string]http.HandlerFunc{
		"overview": c.overview, "catalog": c.catalog, "entry": c.entry, "events": c.events,
		"offices": c.offices, "artifacts": c.artifacts, "preview": c.preview,
	}
	return c
}

// readFiles returns the files of the page by the paths at which they are served.
func readFiles() map[string]file {
	kinds := map[string]string{".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}
	files := map[string]file{}
	names, err := fs.Glob(web, "web/*")
	if err != nil {
		panic(err) // the pattern is a constant
	}
	for _, name := range names {
		body, err := web.ReadFile(name)
		if err != nil {
			panic(err) // it is in the binary
		}
		sum := sha256.Sum256(body)
		at := Path + "/static/" + path.Base(name)
		if path.Base(name) == "index.html" {
			at = Path
		}
		files[at] = file{kinds[path.Ext(name)], `"` + hex.EncodeToString(sum[:8]) + `"`, body}
	}
	return files
}

// Close ends the event streams. Later ones end at once.
func (c *Console) Close() { c.once.Do(func() { close(c.done) }) }

// policy allows the page's files to load each other and to contact this server, and nothing else.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// Page serves the page and its files. They contain no data, so they need no token.
func (c *Console) Page(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Content-Security-Policy", policy)
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-cache")
	if !getOrHead(w, r) {
		return
	}
	if r.URL.Path == Path+"/" {
		h.Set("Location", "../console") // relative: there may be a prefix before it
		w.WriteHeader(http.StatusPermanentRedirect)
		return
	}
	f, ok := c.files()[r.URL.Path]
	if !ok {
		refuse(w, http.StatusNotFound, mcp.Errorf(mcp.KindNotFound, "there is no such file; the page is at %s", Path))
		return
	}
	h.Set("ETag", f.tag)
	if matches(r.Header.Get("If-None-Match"), f.tag) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	h.Set("Content-Type", f.kind)
	_, _ = w.Write(f.body) // the client may have disconnected
}

func matches(header, tag string) bool {
	for one := range strings.SplitSeq(header, ",") {
		if one = strings.TrimPrefix(strings.TrimSpace(one), "W/"); one == tag || one == "*" {
			return true
		}
	}
	return false
}

// Data serves the data of the page. The caller must have checked that the viewer may use the whole
// gateway, and must set the viewer with guard.WithPrincipal.
func (c *Console) Data(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	h.Set("Cache-Control", "no-store")
	if !getOrHead(w, r) {
		return
	}
	serve, ok := c.data[strings.TrimPrefix(r.URL.Path, DataPath)]
	if !ok {
		refuse(w, http.StatusNotFound, mcp.Errorf(mcp.KindNotFound, "there is no such data; the page at %s asks for what there is", Path))
		return
	}
	serve(w, r)
}
