package console

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/weir-mcp/weir/internal/artifact"
	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/guard"
	"github.com/weir-mcp/weir/internal/rawjson"
	"github.com/weir-mcp/weir/internal/visible"
	"github.com/weir-mcp/weir/mcp"
)

// Limits of one response.
const (
	defaultLimit   = 100
	maxLimit       = 500
	maxHits        = 100 // of a search
	maxQuery       = 1000
	maxDescription = 32 << 10
	maxDefinition  = 64 << 10 // of a schema or of annotations, each
	maxIndentDepth = 64       // deeper ones are shown in one line
	maxError       = 1000
	previewRows    = 20
	previewChars   = 4000
	maxColumns     = 100
	maxCell        = 2000
)

func getOrHead(w http.ResponseWriter, r *http.Request) bool {
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		return true
	}
	w.Header().Set("Allow", "GET, HEAD")
	refuse(w, http.StatusMethodNotAllowed, mcp.Errorf(mcp.KindInvalidRequest, "%s is not used here; allowed: GET, HEAD", clip(r.Method, 20)))
	return false
}

func refuse(w http.ResponseWriter, status int, err error) { guard.WriteError(w, status, "", err) }

func write(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	if raw, err := json.Marshal(v); err == nil { // of weir's own types: there is no error
		_, _ = w.Write(append(visible.JSON(raw), '\n')) // the client may have disconnected
	}
}

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

// pageOf reads offset and limit. If they are wrong, it writes the response itself.
func pageOf(w http.ResponseWriter, r *http.Request, most int) (page, bool) {
	p := page{Limit: min(defaultLimit, most)}
	query := r.URL.Query()
	for _, one := range []struct {
		name        string
		to          *int
		least, most int
	}{{"offset", &p.Offset, 0, 1 << 30}, {"limit", &p.Limit, 1, most}} {
		text := query.Get(one.name)
		if text == "" {
			continue
		}
		n, err := strconv.Atoi(text)
		if err != nil || n < one.least || n > one.most {
			refuse(w, http.StatusBadRequest, mcp.Errorf(mcp.KindInvalidRequest, "%s must be a whole number from %d to %d, not %q", one.name, one.least, one.most, clip(text, 40)))
			return p, false
		}
		*one.to = n
	}
	return p, true
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

func (c *Console) overview(w http.ResponseWriter, r *http.Request) {
	p, ok := pageOf(w, r, maxLimit)
	if !ok {
		return
	}
	o := c.o.Gateway.Overview(r.Context())
	o.Upstreams = cut(o.Upstreams, &p)
	for i := range o.Upstreams {
		o.Upstreams[i].Error = clip(o.Upstreams[i].Error, maxError)
	}
	write(w, struct {
		Overview
		Page page `json:"page"`
	}{o, p})
}

func (c *Console) offices(w http.ResponseWriter, r *http.Request) {
	p, ok := pageOf(w, r, maxLimit)
	if !ok {
		return
	}
	o := c.o.Gateway.Offices()
	if o == nil {
		o = &Offices{}
	}
	computers := p
	o.Members, o.Computers = cut(o.Members, &p), cut(o.Computers, &computers)
	for i := range o.Computers {
		servers := page{Limit: maxLimit}
		o.Computers[i].Servers = cut(o.Computers[i].Servers, &servers)
	}
	write(w, struct {
		*Offices
		Page          page `json:"page"`
		ComputersPage page `json:"computers_page"`
	}{o, p, computers})
}

// kinds are the values of kind.
var kinds = map[string]catalog.Kind{"": catalog.KindTool, "tool": catalog.KindTool, "resource": catalog.KindResource, "prompt": catalog.KindPrompt}

// card is a card of the list of a path or of hits.
type card struct {
	ID          string   `json:"id"` // of a folder: its path
	Folder      bool     `json:"folder"`
	Name        string   `json:"name"`
	Kind        string   `json:"kind"`
	Namespace   string   `json:"namespace"`
	Description string   `json:"description"`
	Tags        []string `json:"tags"`
	SideEffects bool     `json:"side_effects"`
	Safety      string   `json:"safety"`
	Score       float64  `json:"score,omitempty"`
	Tokens      int      `json:"tokens"`
}

func (c *Console) catalog(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	kind, known := kinds[query.Get("kind")]
	if !known {
		refuse(w, http.StatusBadRequest, mcp.Errorf(mcp.KindInvalidRequest, "kind must be tool, resource or prompt, not %q", clip(query.Get("kind"), 40)))
		return
	}
	text, most := strings.TrimSpace(query.Get("query")), maxLimit
	if text != "" {
		most = maxHits
	}
	p, ok := pageOf(w, r, most)
	if !ok {
		return
	}
	if len(text) > maxQuery {
		refuse(w, http.StatusBadRequest, mcp.Errorf(mcp.KindInvalidRequest, "query has %d bytes; at most %d", len(text), maxQuery))
		return
	}
	var (
		cards []catalog.Card
		err   error
		path  = "/"
	)
	if text != "" {
		p.Offset = min(p.Offset, maxHits)
		cards, path = c.o.Catalog.Search(r.Context(), kind, text, maxHits), ""
	} else {
		if given := query.Get("path"); given != "" {
			path = given
		}
		if cards, err = c.o.Catalog.Children(r.Context(), kind, path); err != nil {
			refuse(w, http.StatusNotFound, mcp.Errorf(mcp.KindNotFound, "%s", err.Error()))
			return
		}
	}
	shown := cut(cards, &p)
	out := make([]card, len(shown))
	for i := range shown {
		s := &shown[i]
		out[i] = card{s.ID, s.Kind == catalog.KindInternal, s.Name, string(s.Kind), s.Namespace, s.Description, s.Tags, s.SideEffects, s.Safety, s.Score, s.Tokens}
	}
	write(w, struct {
		Path  string `json:"path,omitempty"`
		Query string `json:"query,omitempty"`
		Cards []card `json:"cards"`
		Page  page   `json:"page"`
	}{path, text, out, p})
}

// document is a piece of JSON for people.
type document struct {
	Text string `json:"text"`
	Cut  bool   `json:"cut,omitempty"` // Text is the beginning
}

// show indents JSON without interpreting its numbers. It does not indent large or deep values,
// because that would multiply their size. Invisible characters are escaped.
func show(raw json.RawMessage) *document {
	if raw == nil {
		return nil
	}
	raw = visible.JSON(raw)
	if len(raw) <= maxDefinition && !deep(raw) {
		var out bytes.Buffer
		if json.Indent(&out, raw, "", "  ") == nil && out.Len() <= 4*maxDefinition {
			return &document{Text: out.String()}
		}
	}
	return &document{Text: clip(strings.ToValidUTF8(string(raw[:min(len(raw), maxDefinition)]), ""), maxDefinition), Cut: len(raw) > maxDefinition}
}

// deep reports whether brackets may nest too deeply. It also counts brackets in strings.
func deep(raw []byte) bool {
	n := 0
	for _, b := range raw {
		switch b {
		case '{', '[':
			if n++; n > maxIndentDepth {
				return true
			}
		case '}', ']':
			n--
		}
	}
	return false
}

func (c *Console) entry(w http.ResponseWriter, r *http.Request) {
	id := r.URL.Query().Get("id")
	e, path, ok := c.o.Catalog.Entry(r.Context(), id)
	if !ok {
		refuse(w, http.StatusNotFound, mcp.Errorf(mcp.KindNotFound, "%q is not in the catalog; it may have changed: search for it again", clip(id, 200)))
		return
	}
	out := struct {
		ID           string    `json:"id"`
		Path         string    `json:"path"`
		Kind         string    `json:"kind"`
		Upstream     string    `json:"upstream"`
		Namespace    string    `json:"namespace"`
		RawName      string    `json:"raw_name"`
		Title        string    `json:"title,omitempty"`
		URI          string    `json:"uri,omitempty"`
		Version      string    `json:"version,omitempty"`
		Description  string    `json:"description"`
		Cut          bool      `json:"description_cut,omitempty"`
		Tags         []string  `json:"tags"`
		Card         string    `json:"card"`
		Tokens       int       `json:"tokens"` // of the card
		SchemaError  string    `json:"schema_error,omitempty"`
		Annotations  *document `json:"annotations"`
		InputSchema  *document `json:"input_schema"`
		OutputSchema *document `json:"output_schema"`
	}{
		e.ID, path, string(e.Kind), e.Upstream, e.Namespace, e.RawName, clip(visible.Text(e.Title), maxQuery), clip(e.URI, maxQuery), e.Version,
		clip(visible.Text(e.Description), maxDescription), len(e.Description) > maxDescription, e.Tags, e.Card.Render(), e.Card.Tokens, "",
		show(e.Annotations), show(e.InputSchema), show(e.OutputSchema),
	}
	if err := e.SchemaError(); err != nil {
		out.SchemaError = clip(err.Error(), maxError)
	}
	write(w, out)
}

// held is an artifact in the list.
type held struct {
	Handle    string    `json:"handle"`
	Kind      string    `json:"kind"` // "table" or "artifact"
	MediaType string    `json:"media_type"`
	Label     string    `json:"label"`
	Size      int64     `json:"size_bytes"`
	Rows      *int      `json:"rows,omitempty"` // of a table
	Columns   []string  `json:"columns,omitempty"`
	More      int       `json:"more_columns,omitempty"`
	Created   time.Time `json:"created"`
	Expires   time.Time `json:"expires"`
}

func (c *Console) artifacts(w http.ResponseWriter, r *http.Request) {
	p, ok := pageOf(w, r, maxLimit)
	if !ok {
		return
	}
	all := c.o.Artifacts.List(guard.Principal(r.Context()))
	var size int64
	for i := range all {
		size += all[i].SizeBytes
	}
	shown := cut(all, &p)
	out := make([]held, len(shown))
	for i := range shown {
		out[i] = describe(&shown[i])
	}
	write(w, struct {
		Artifacts []held `json:"artifacts"`
		Size      int64  `json:"size_bytes"` // of all
		Page      page   `json:"page"`
	}{out, size, p})
}

func describe(a *artifact.Held) held {
	h := held{Handle: a.Handle, Kind: "artifact", MediaType: a.MediaType, Label: a.Label, Size: a.SizeBytes, Created: a.Created, Expires: a.Expires}
	if a.Table {
		h.Kind, h.Rows = "table", &a.Rows
		h.Columns, h.More = columns(a.Columns)
	}
	return h
}

// columns bounds names of columns.
func columns(all []string) (shown []string, more int) {
	shown = make([]string, min(len(all), maxColumns))
	for i := range shown {
		shown[i] = clip(all[i], 200)
	}
	return shown, len(all) - len(shown)
}

// preview shows the beginning of an artifact: rows if it is a table, otherwise text.
func (c *Console) preview(w http.ResponseWriter, r *http.Request) {
	handle, principal := r.URL.Query().Get("handle"), guard.Principal(r.Context())
	out := struct {
		Handle  string     `json:"handle"`
		Text    string     `json:"text,omitempty"`
		Columns []string   `json:"columns,omitempty"`
		More    int        `json:"more_columns,omitempty"`
		Rows    [][]string `json:"rows,omitempty"`
		Notice  string     `json:"notice,omitempty"`
	}{Handle: clip(handle, 200)}
	text, notice, err := c.o.Artifacts.View(r.Context(), principal, handle, json.RawMessage(`{"type":"table","limit":`+strconv.Itoa(previewRows)+`}`))
	if err == nil {
		var names []string
		names, out.Rows, err = cells(text)
		out.Columns, out.More = columns(names)
	}
	if err != nil { // no table
		text, notice, err = c.o.Artifacts.View(r.Context(), principal, handle, json.RawMessage(`{"type":"head","chars":`+strconv.Itoa(previewChars)+`}`))
		out.Text, out.Columns, out.Rows = text, nil, nil
	}
	if err != nil {
		refuse(w, http.StatusNotFound, mcp.Errorf(mcp.KindNotFound, "%s", clip(err.Error(), maxError)))
		return
	}
	out.Notice = notice
	write(w, out)
}

// cells reads rows in the form of tool_view: a JSON array of objects. Numbers keep their spelling.
func cells(text string) (names []string, rows [][]string, err error) {
	at := map[string]int{}
	var bad error // of a row
	err = rawjson.EachElement([]byte(text), func(row []byte) bool {
		var out []string
		bad = rawjson.EachMember(row, func(m rawjson.Member) bool {
			name := string(m.Key)
			i, ok := at[name]
			if !ok {
				i = len(names)
				at[name], names = i, append(names, name)
			}
			if i >= maxColumns {
				return true
			}
			for len(out) <= i {
				out = append(out, "")
			}
			value := string(m.Value)
			if len(value) > 0 && value[0] == '"' {
				value = rawjson.Text(m.Value)
			}
			out[i] = clip(value, maxCell)
			return true
		})
		rows = append(rows, out)
		return bad == nil && len(rows) < previewRows
	})
	return names, rows, errors.Join(err, bad)
}
