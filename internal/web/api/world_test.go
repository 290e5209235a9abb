package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/artifact"
	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/catalog/primitive"
	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/flow"
	"github.com/weir-mcp/weir/internal/net/guard"
	"github.com/weir-mcp/weir/internal/observe/history"
	"github.com/weir-mcp/weir/internal/observe/telemetry"
	"github.com/weir-mcp/weir/internal/search"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/s2sp/table"
)

const hostile = `</script><script>alert(1)</script><img src=x onerror=alert(2)>` + "\u202e\u2028"

// world is a gateway with many servers, a catalog and a store.
type world struct {
	catalog   *catalog.Catalog
	store     *artifact.Local
	upstreams int
	offices   *Offices
	asked     []string // principals
	all       bool     // viewers see the calls of all principals
	book      history.Book
}

func newWorld(t testing.TB) *world {
	t.Helper()
	var tools []json.RawMessage
	for i := range 30 {
		tools = append(tools, json.RawMessage(fmt.Sprintf(`{"name":"tool_%02d","description":"Number %d","inputSchema":{"type":"object"}}`, i, i)))
	}
	text, err := json.Marshal(hostile)
	if err != nil {
		t.Fatal(err)
	}
	tools = append(tools, json.RawMessage(`{"name":"hostile","title":`+string(text)+`,"description":`+string(text)+
		`,"inputSchema":{"type":"object","properties":{"n":{"type":"integer","maximum":12345678901234567890}}},"annotations":{"readOnlyHint":true}}`))
	c, _ := catalog.New(catalog.Limits{}).With(primitive.Listing{Upstream: "many", Namespace: "many", Tools: tools})
	w := &world{catalog: c, store: artifact.NewMemory(artifact.Options{}), upstreams: 3}
	t.Cleanup(func() {
		if err := w.store.Close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

// Rules implements Labels.
func (w *world) Rules(context.Context) flow.Listing {
	return flow.List(&config.Config{Flow: config.Flow{Mode: config.FlowAsk}}, w.catalog.Entries())
}

// Readings implements Labels.
func (w *world) Readings(context.Context) []flow.Reading {
	return []flow.Reading{{Session: "s1", Principal: "ann", Integrity: "untrusted", Confidentiality: []string{"hr"}, Sources: []flow.Source{{Tool: "many:hostile", Head: hostile}}}}
}

// Clear implements Labels.
func (w *world) Clear(ctx context.Context, session string) (flow.Reading, error) {
	if all := w.Readings(ctx); all[0].Session == session {
		return all[0], nil
	}
	return flow.Reading{}, mcp.Errorf(mcp.KindNotFound, "no open session")
}

func (w *world) SeesAll(context.Context) bool { return w.all }

func (w *world) Overview(ctx context.Context) Overview {
	w.asked = append(w.asked, guard.Principal(ctx))
	o := Overview{Name: "weir", Version: "1", Status: "ok", Mode: "gateway", Tools: 31, Usage: Usage{Own: true, Calls: 7, Read: 10, Raw: 100}}
	for i := range w.upstreams {
		o.Upstreams = append(o.Upstreams, Upstream{Name: fmt.Sprintf("up%04d", i), State: "failed", Error: hostile + strings.Repeat("é", 4000)})
	}
	return o
}

func (w *world) Offices(context.Context) *Offices { return w.offices }

func (w *world) Search(_ context.Context, kind primitive.Kind, query string, n int) []catalog.Card {
	var cards []catalog.Card
	for _, e := range w.catalog.Entries() {
		if e.Kind == kind && strings.Contains(e.ID, query) && len(cards) < n {
			card := e.Card
			card.Score = 1 / float64(len(cards)+1)
			cards = append(cards, card)
		}
	}
	return cards
}

func (w *world) Children(_ context.Context, kind primitive.Kind, path string) ([]catalog.Card, error) {
	return w.catalog.ChildrenOf(kind, path)
}

func (w *world) Entry(_ context.Context, id string) (*catalog.Entry, string, bool) {
	e, ok := w.catalog.Lookup(id)
	path, _ := w.catalog.Path(id)
	return e, path, ok
}

func (w *world) List(principal string) []artifact.Held { return w.store.List(principal) }

// View shows rows of what begins as an array, as tool_view does, and the text of everything else.
func (w *world) View(ctx context.Context, principal, handle string, selector json.RawMessage) (Excerpt, error) {
	a, data, err := w.store.Get(ctx, principal, handle)
	if err != nil {
		return Excerpt{}, err
	}
	if strings.Contains(string(selector), `"table"`) && data[0] != '[' {
		return Excerpt{}, errors.New("no rows")
	}
	return Excerpt{Text: string(data), Notice: a.Label, Matched: 7}, nil
}

// Open opens what is kept, and reads its rows with the columns, conditions and order of a selector.
func (w *world) Open(ctx context.Context, principal, handle string) (Kept, error) {
	lease, err := w.store.Open(ctx, principal, handle)
	if err != nil {
		return nil, err
	}
	return worldKept{lease}, nil
}

type worldKept struct{ *artifact.Lease }

func (k worldKept) Content() (string, []byte) {
	data, err := k.Bytes(context.Background())
	if err != nil {
		panic(err) // nothing is counted
	}
	return k.MediaType, data
}

func (worldKept) Grow(int64) error { return nil }

func (k worldKept) Rows(ctx context.Context, selector json.RawMessage) (table.View, error) {
	q, err := table.ParseQuery(selector)
	if err != nil {
		return table.View{}, err
	}
	t, err := k.Table(table.DetectOptions{})
	if err != nil {
		return table.View{}, err
	}
	q.Limit = 0
	found, err := t.View().Query(ctx, q)
	return found.View, err
}

// Why explains with what it was asked.
func (w *world) Why(_ context.Context, query string, e *catalog.Entry) search.Explanation {
	return search.Explanation{Rank: 1, Score: .5, Embedded: true, Cosine: .5, Words: []search.WordShare{{Word: query, Through: e.Name, Share: 1, Match: "word", Fields: []search.FieldShare{{Field: "name", Weight: 3, Share: 1}}}}}
}

func (w *world) Setup(context.Context) Setup {
	return Setup{URL: "http://127.0.0.1:8088/mcp", Snippets: []Snippet{{"Some client", "a file", hostile}}}
}

// look returns what viewers read of the world. A viewer is named by the header X-Principal.
func (w *world) look(book *history.Book) Look {
	return Look{Gateway: w, Catalog: w, Artifacts: w, Labels: w, History: book, Guard: func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			next.ServeHTTP(rw, r.WithContext(guard.WithPrincipal(r.Context(), r.Header.Get("X-Principal"))))
		})
	}}
}

func (w *world) serve(t testing.TB) *API {
	t.Helper()
	a := New(Options{Look: w.look(&w.book), Key: worldKey})
	t.Cleanup(a.Close)
	return a
}

const worldKey = "operator-key"

// ask asks as a principal and reads the JSON of the answer, with any status.
func ask(t testing.TB, a *API, principal, target string) (status int, out map[string]any) {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, Path+target, nil)
	r.Header.Set("X-Principal", principal)
	w := httptest.NewRecorder()
	a.ServeHTTP(w, r)
	if err := json.Unmarshal(w.Body.Bytes(), &out); err != nil {
		t.Fatalf("%s: %v in %.200q", target, err, w.Body)
	}
	h := w.Header()
	if h.Get("Content-Type") != "application/json" || h.Get("X-Content-Type-Options") != "nosniff" || h.Get("Cache-Control") != "no-store" {
		t.Errorf("%s: headers are %v", target, h)
	}
	return w.Code, out
}

func call(principal, tool string) telemetry.Event {
	return telemetry.Event{
		Time: time.Now(), Name: telemetry.ExecuteCompleted, Session: "0123456789ab", Principal: principal, MetaTool: "tool_execute", ToolID: tool, Upstream: "many",
		Duration: 1500 * time.Microsecond, Attempts: 1, TokensRead: 2, TokensRaw: 20, Counted: true,
	}
}
