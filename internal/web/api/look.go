package api

import (
	"context"
	"encoding/json"
	"math"
	"net/http"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/weir-mcp/weir/internal/artifact"
	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/catalog/primitive"
	"github.com/weir-mcp/weir/internal/identity"
	"github.com/weir-mcp/weir/internal/observe/history"
	"github.com/weir-mcp/weir/internal/observe/telemetry"
	"github.com/weir-mcp/weir/internal/search"
	"github.com/weir-mcp/weir/internal/text"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/s2sp/table"
)

// Look has the sources of the answers for viewers of the gateway. A viewer may be any caller who may use
// the whole gateway.
type Look struct {
	Gateway   Gateway
	Catalog   Catalog
	Artifacts Artifacts
	// Labels are the flow labels.
	Labels Labels
	// History has the calls.
	History *history.Book
	// Captures reports whether the arguments and results of calls are kept. Nil: they are not.
	Captures func() bool
	// Guard refuses requests of callers who may not use the whole gateway, and sets the identity of
	// the others. Nil refuses all.
	Guard func(next http.Handler) http.Handler
	// Patience is the time that a viewer has to read an answer, before it is disconnected; 0
	// means 10 s.
	Patience time.Duration
}

// Gateway describes the running gateway. Its methods are called concurrently. The caller owns the
// results.
type Gateway interface {
	// Overview returns the state of the gateway and all upstreams in display order. Token counts
	// are those that the viewer of a request may see.
	Overview(ctx context.Context) Overview
	// SeesAll reports whether the viewer of a request sees the calls of all principals, not only the
	// viewer's own.
	SeesAll(ctx context.Context) bool
	// Offices returns the connected members and the Computers that the viewer of a request may see, nil
	// if there are no offices.
	Offices(ctx context.Context) *Offices
	// Setup says how the gateway is set up, as far as the viewer of a request may know it.
	Setup(ctx context.Context) Setup
}

// Catalog describes the catalog. Its methods are called concurrently.
type Catalog interface {
	// Search returns at most n cards of a kind for a query, ranked as agents get them.
	Search(ctx context.Context, kind primitive.Kind, query string, n int) []catalog.Card
	// Children returns the cards at a path, as in catalog.Catalog.ChildrenOf.
	Children(ctx context.Context, kind primitive.Kind, path string) ([]catalog.Card, error)
	// Why explains the rank of an entry among the entries of its kind that fit a query.
	Why(ctx context.Context, query string, e *catalog.Entry) search.Explanation
	// Entry returns an entry, which must not be changed, and its path.
	Entry(ctx context.Context, id string) (e *catalog.Entry, path string, ok bool)
}

// Artifacts gives access to a principal's stored results. Its methods are called concurrently.
type Artifacts interface {
	// List returns the principal's artifacts, newest first.
	List(principal string) []artifact.Held
	// View returns the part of an artifact that a selector of tool_view selects. Its error is shown
	// to the viewer; it is of mcp.KindOverloaded if there is no room for the bytes of the view.
	View(ctx context.Context, principal, handle string, selector json.RawMessage) (Excerpt, error)
	// Open opens an artifact, whole. Its error is shown to the viewer; it is of mcp.KindOverloaded if
	// the principal reads too many at once.
	Open(ctx context.Context, principal, handle string) (Kept, error)
}

// Excerpt is a part of an artifact.
type Excerpt struct {
	Text    string
	Notice  string // which part of the whole it is
	Matched int    // the rows that a selector of type table matches, before its offset and limit
}

// Kept is an artifact that is read by one goroutine until Close.
type Kept interface {
	// Content returns the bytes, which are not changed, and their media type.
	Content() (mediaType string, data []byte)
	// Rows returns the rows that a selector of type table selects; without a limit in it, all. It
	// returns the errors of Artifacts.View.
	Rows(ctx context.Context, selector json.RawMessage) (table.View, error)
	// Grow asks for memory that is in use until Close, or returns why there is none.
	Grow(bytes int64) error
	Close()
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
	Upstreams []Upstream `json:"upstreams"` // the answer has a page of them
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
	Namespace string `json:"namespace,omitempty"`
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
	Pid       int    `json:"pid,omitempty"`
	Differs   int    `json:"differs,omitempty"` // definitions that differ from weir.lock
	Held      int    `json:"held,omitempty"`    // entries that are hidden until they are accepted
	// CardTokens is the cost in tokens of an agent that reads the cards of all its tools.
	CardTokens int `json:"card_tokens"`
	// P50 and P95 are the durations within which half of its calls and 95 of 100 ended, of the last
	// calls that the viewer may see; absent without one.
	P50 *float64 `json:"p50_ms,omitempty"`
	P95 *float64 `json:"p95_ms,omitempty"`
}

// Setup says how a gateway is set up.
type Setup struct {
	URL      string    `json:"url"` // of /mcp
	Config   string    `json:"config,omitempty"`
	Lock     string    `json:"lock,omitempty"`
	Tokens   bool      `json:"tokens"` // callers need one
	Snippets []Snippet `json:"snippets"`
}

// Snippet is a text to paste into the configuration of a client.
type Snippet struct {
	Client string `json:"client"`
	Where  string `json:"where"`
	Text   string `json:"text"`
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

// Computer is a Computer and its servers and tools.
type Computer struct {
	Name    string           `json:"name"`
	Servers []ComputerServer `json:"servers"`
}

// ComputerServer is one MCP server of a Computer.
type ComputerServer struct {
	Name     string `json:"name"`
	Upstream string `json:"upstream"` // its name here
	State    string `json:"state"`
	Tools    int    `json:"tools"`
}

// Limits of one answer.
const (
	defaultLimit   = 100
	maxLimit       = 500
	maxHits        = 100 // of a search
	maxQuery       = 1000
	maxDescription = 32 << 10
	maxDefinition  = 64 << 10 // of a schema or of annotations, each
	maxIndentDepth = 64       // deeper ones are shown in one line
	maxError       = 1000
	previewChars   = 4000
	maxColumns     = 100
	maxCell        = 2000
)

// clip cuts a text to n bytes, whole characters.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}

// page is the requested part of a list.
type page struct {
	Offset int `json:"offset"`
	Limit  int `json:"limit"`
	Total  int `json:"total"`
}

// pageOf reads offset and limit of a request.
func pageOf(r *http.Request, most int) (page, error) {
	p := page{Limit: min(defaultLimit, most)}
	query := r.URL.Query()
	for _, one := range []struct {
		name        string
		to          *int
		least, most int
	}{{"offset", &p.Offset, 0, 1 << 30}, {"limit", &p.Limit, 1, most}} {
		given := query.Get(one.name)
		if given == "" {
			continue
		}
		n, err := strconv.Atoi(given)
		if err != nil || n < one.least || n > one.most {
			return p, mcp.Errorf(mcp.KindInvalidParams, "%s must be a whole number from %d to %d, not %q", one.name, one.least, one.most, clip(given, 40))
		}
		*one.to = n
	}
	return p, nil
}

// cut returns the part of all that a page requests, and records their total number.
func cut[T any](all []T, p *page) []T {
	p.Total = len(all)
	start := min(p.Offset, len(all))
	out := all[start:min(start+p.Limit, len(all))]
	if out == nil {
		return []T{}
	}
	return out
}

// overviewAnswer is the answer of overview.
type overviewAnswer struct {
	Overview
	Page page `json:"page"`
}

// overview serves overview.
func (a *API) overview(w http.ResponseWriter, r *http.Request) error {
	p, err := pageOf(r, maxLimit)
	if err != nil {
		return err
	}
	o := a.o.Look.Gateway.Overview(r.Context())
	o.Upstreams = cut(o.Upstreams, &p)
	for i := range o.Upstreams {
		o.Upstreams[i].Error = clip(o.Upstreams[i].Error, maxError)
	}
	latencies(a.o.Look.History, a.seer(r.Context()), o.Upstreams)
	return write(w, overviewAnswer{o, p})
}

// server serves servers/{name}.
func (a *API) server(w http.ResponseWriter, r *http.Request) error {
	all, name := a.o.Look.Gateway.Overview(r.Context()).Upstreams, r.PathValue("name")
	at := slices.IndexFunc(all, func(u Upstream) bool { return u.Name == name })
	if at < 0 {
		return mcp.Errorf(mcp.KindNotFound, "there is no server %q", text.Line(name, 80))
	}
	all[at].Error = clip(all[at].Error, maxError)
	latencies(a.o.Look.History, a.seer(r.Context()), all[at:at+1])
	return write(w, all[at])
}

// latencies sets the durations of the calls of servers, from the calls of a book that a viewer sees.
func latencies(book *history.Book, sees func(*telemetry.Event) bool, all []Upstream) {
	if book == nil || len(all) == 0 {
		return
	}
	took := make(map[string][]time.Duration, len(all))
	for _, u := range all {
		took[u.Name] = nil
	}
	book.Recent(math.MaxUint64, 1, func(e *telemetry.Event) bool {
		if of, asked := took[e.Upstream]; asked && history.IsCall(e) && sees(e) && e.Attempts > 0 {
			took[e.Upstream] = append(of, e.Duration)
		}
		return false
	})
	for i := range all {
		of := took[all[i].Name]
		if len(of) == 0 {
			continue
		}
		slices.Sort(of)
		rank := func(percent int) *float64 {
			ms := float64(of[(len(of)*percent+99)/100-1].Microseconds()) / 1000
			return &ms
		}
		all[i].P50, all[i].P95 = rank(50), rank(95)
	}
}

// officesAnswer is the answer of offices.
type officesAnswer struct {
	*Offices
	Page          page `json:"page"`
	ComputersPage page `json:"computers_page"`
}

// offices serves offices.
func (a *API) offices(w http.ResponseWriter, r *http.Request) error {
	p, err := pageOf(r, maxLimit)
	if err != nil {
		return err
	}
	o := a.o.Look.Gateway.Offices(r.Context())
	if o == nil {
		o = &Offices{}
	}
	computers := p
	o.Members, o.Computers = cut(o.Members, &p), cut(o.Computers, &computers)
	for i := range o.Computers {
		servers := page{Limit: maxLimit}
		o.Computers[i].Servers = cut(o.Computers[i].Servers, &servers)
	}
	return write(w, officesAnswer{o, p, computers})
}

// me returns the identity and the rights of a viewer.
type me struct {
	Principal string   `json:"principal"`
	Roles     []string `json:"roles"`
	// Operates: the viewer may use the operator's paths.
	Operates bool `json:"operates"`
	// Owns: the viewer is the user who runs the gateway, and may use the paths of that user.
	Owns bool `json:"owns"`
	// SeesAll: the viewer sees the calls of all callers.
	SeesAll bool `json:"sees_all"`
	// Cluster: the gateway is a node of a cluster.
	Cluster bool `json:"cluster"`
}

// me serves me.
func (a *API) me(w http.ResponseWriter, r *http.Request) error {
	id := identity.From(r.Context())
	return write(w, me{id.Principal, append([]string{}, id.Roles...), a.operates(id), owner(r.Context()), a.o.Look.Gateway.SeesAll(r.Context()), a.o.Cluster != nil})
}

// mcp serves the path mcp, for pages whose person has signed in: /mcp takes only tokens.
func (a *API) mcp(w http.ResponseWriter, r *http.Request) error {
	if a.o.Calls == nil {
		return mcp.Errorf(mcp.KindNotFound, "this gateway takes no calls here")
	}
	a.o.Calls.ServeHTTP(w, r)
	return nil
}

// setup serves setup.
func (a *API) setup(w http.ResponseWriter, r *http.Request) error {
	return write(w, a.o.Look.Gateway.Setup(r.Context()))
}
