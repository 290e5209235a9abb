package api

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/weir-mcp/weir/internal/artifact"
	"github.com/weir-mcp/weir/internal/identity"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/text"
	"github.com/weir-mcp/weir/mcp"
)

// maxRows bounds the rows of one answer.
const maxRows = 200

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

// artifactsAnswer is the answer of artifacts.
type artifactsAnswer struct {
	Artifacts []held `json:"artifacts"`
	Size      int64  `json:"size_bytes"` // of all
	Page      page   `json:"page"`
}

// artifacts serves artifacts: the results that are kept for the viewer.
func (a *API) artifacts(w http.ResponseWriter, r *http.Request) error {
	p, err := pageOf(r, maxLimit)
	if err != nil {
		return err
	}
	all := a.o.Look.Artifacts.List(identity.From(r.Context()).Principal)
	var size int64
	for i := range all {
		size += all[i].SizeBytes
	}
	shown := cut(all, &p)
	out := make([]held, len(shown))
	for i := range shown {
		out[i] = describe(&shown[i])
	}
	return write(w, artifactsAnswer{out, size, p})
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

// viewAnswer is the answer of artifacts/{handle}: rows, or a text.
type viewAnswer struct {
	Handle  string     `json:"handle"`
	Text    string     `json:"text,omitempty"`
	Columns []string   `json:"columns,omitempty"`
	More    int        `json:"more_columns,omitempty"`
	Rows    [][]string `json:"rows,omitempty"`
	// Total is the number of rows or groups that fit, before offset and limit.
	Total *int `json:"total,omitempty"`
	// Notice says which part of the whole this is.
	Notice string `json:"notice,omitempty"`
	// Selector is the selector with which an agent reads the same by tool_view.
	Selector json.RawMessage `json:"selector"`
}

// artifact serves artifacts/{handle}: rows of a table, else the beginning of the text.
//
//	offset=, limit=           which rows; 100 at most 200
//	where=, order_by=,        the parameters of the selector "table" of tool_view, as JSON
//	group_by=, aggregate=
func (a *API) artifact(w http.ResponseWriter, r *http.Request) error {
	handle := r.PathValue("handle")
	p, err := pageOf(r, maxRows)
	if err != nil {
		return err
	}
	selector, asked, err := tableSelector(r, `{"type":"table","offset":`+strconv.Itoa(p.Offset)+`,"limit":`+strconv.Itoa(p.Limit)+`}`)
	if err != nil {
		return err
	}
	view := func(selector json.RawMessage) (Excerpt, error) {
		return a.o.Look.Artifacts.View(r.Context(), identity.From(r.Context()).Principal, handle, selector)
	}
	out := viewAnswer{Handle: clip(handle, 200), Selector: selector}
	shown, err := view(selector)
	if err == nil {
		var names []string
		if names, out.Rows, err = cells(shown.Text); err == nil {
			out.Columns, out.More = columns(names)
			out.Total = &shown.Matched
		}
	}
	if kind, _ := mcp.KindOf(err); err != nil && !asked && kind != mcp.KindOverloaded { // no table
		out.Selector = json.RawMessage(`{"type":"head","chars":` + strconv.Itoa(previewChars) + `}`)
		shown, err = view(out.Selector)
		out.Text, out.Columns, out.Rows = shown.Text, nil, nil
	}
	if err != nil {
		return failed(w, mcp.KindNotFound, err)
	}
	out.Notice = shown.Notice
	return write(w, out)
}

// tableParts are the parameters of artifacts/{handle} that go into the selector as they are.
var tableParts = []string{"columns", "where", "order_by", "group_by", "aggregate"}

// maxSelector bounds one part of a selector, in bytes: the names of a hundred columns.
const maxSelector = 8 << 10

// tableSelector adds the parameters of a request to a selector. asked reports whether the request wants a table
// and nothing else.
func tableSelector(r *http.Request, base string) (selector json.RawMessage, asked bool, err error) {
	selector = json.RawMessage(base)
	for name, values := range r.URL.Query() {
		if !slices.Contains(tableParts, name) || values[0] == "" {
			continue
		}
		if len(values[0]) > maxSelector || !json.Valid([]byte(values[0])) {
			return nil, false, mcp.Errorf(mcp.KindInvalidParams, "%s must be JSON, as in the selector \"table\" of tool_view, with at most %d bytes, not %q", name, maxSelector, text.Line(values[0], 40))
		}
	}
	for _, name := range tableParts {
		if value := r.URL.Query().Get(name); value != "" {
			asked = true
			if selector, err = rawjson.Set(selector, name, json.RawMessage(value)); err != nil {
				return nil, false, mcp.Errorf(mcp.KindInvalidParams, "%s: %s", name, text.Line(err.Error(), 80))
			}
		}
	}
	return selector, asked, nil
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
		return bad == nil && len(rows) < maxRows
	})
	return names, rows, errors.Join(err, bad)
}
