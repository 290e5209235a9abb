package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/catalog/primitive"
	"github.com/weir-mcp/weir/internal/text/visible"
	"github.com/weir-mcp/weir/s2sp/table"
)

// TestDataRefuses: what is asked wrongly is refused with the reason.
func TestDataRefuses(t *testing.T) {
	c := newWorld(t).serve(t)
	for target, want := range map[string]struct {
		status int
		text   string
	}{
		"nothing":                             {401, "needs an operator"},
		"":                                    {401, "needs an operator"},
		"overview?limit=0":                    {400, "limit must be a whole number from 1 to 500"},
		"overview?limit=501":                  {400, "limit must be"},
		"overview?offset=-1":                  {400, "offset must be"},
		"overview?offset=1e3":                 {400, "offset must be"},
		"overview?limit=99999999999999999999": {400, "limit must be"},
		"offices?limit=x":                     {400, "limit must be"},
		"artifacts?limit=501":                 {400, "limit must be"},
		"catalog?kind=internal":               {400, "kind must be"},
		"catalog?query=a&limit=101":           {400, "from 1 to 100"},
		"catalog?query=" + strings.Repeat("a", 1001):    {400, "at most 1000"},
		"catalog?path=/nowhere":                         {404, "there is nothing at /nowhere"},
		"catalog?path=nowhere":                          {404, ""},
		"catalog/entry":                                 {404, "not in the catalog"},
		"catalog/entry?id=" + strings.Repeat("x", 5000): {404, "x…"},
		"artifacts/art_none":                            {404, "no artifact has the handle"},
		"artifacts/x":                                   {404, ""},
	} {
		status, out := ask(t, c, "ann", target)
		text, _ := json.Marshal(out["error"])
		if status != want.status || !strings.Contains(string(text), want.text) || len(text) > 2000 {
			t.Errorf("%.60s: status %d, %.300s; want %d with %q", target, status, text, want.status, want.text)
		}
	}
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete, "PROPFIND"} {
		w := httptest.NewRecorder()
		c.ServeHTTP(w, httptest.NewRequest(method, Path+"overview", nil))
		if w.Code != http.StatusMethodNotAllowed {
			t.Errorf("%s: status %d", method, w.Code)
		}
	}
}

// TestOverview: the viewer's own numbers, and a page of the servers.
func TestOverview(t *testing.T) {
	w := newWorld(t)
	w.upstreams = 1234
	c := w.serve(t)
	for _, one := range []struct {
		target      string
		first, size int
	}{{"overview", 0, 100}, {"overview?offset=1200&limit=500", 1200, 34}, {"overview?offset=5000", 0, 0}} {
		status, out := ask(t, c, "ann", one.target)
		ups := out["upstreams"].([]any)
		if status != 200 || len(ups) != one.size || out["page"].(map[string]any)["total"] != 1234.0 {
			t.Fatalf("%s: status %d, %d servers, %v", one.target, status, len(ups), out["page"])
		}
		if one.size == 0 {
			continue
		}
		up := ups[0].(map[string]any)
		text := up["error"].(string)
		if up["name"] != fmt.Sprintf("up%04d", one.first) || !strings.HasPrefix(text, hostile) || !strings.HasSuffix(text, "é…") || len(text) > maxError+3 {
			t.Errorf("%s: the first is %v", one.target, up["name"])
		}
	}
	_, out := ask(t, c, "ann", "overview")
	usage := out["usage"].(map[string]any)
	if usage["tokens_read"] != 10.0 || usage["tokens_raw"] != 100.0 || usage["own"] != true || out["version"] != "1" || out["mode"] != "gateway" {
		t.Errorf("the overview is %v", out)
	}
	if i := slices.IndexFunc(w.asked, func(p string) bool { return p != "ann" }); i >= 0 {
		t.Errorf("it asked for %q", w.asked[i])
	}
}

func TestCatalog(t *testing.T) {
	c := newWorld(t).serve(t)
	_, root := ask(t, c, "ann", "catalog")
	cards := root["cards"].([]any)
	if len(cards) != 1 || cards[0].(map[string]any)["folder"] != true || cards[0].(map[string]any)["id"] != "/many" || root["path"] != "/" {
		t.Fatalf("the root is %v", root)
	}
	_, hits := ask(t, c, "ann", "catalog?query=tool_&limit=4&offset=2")
	if got := len(hits["cards"].([]any)); got != 4 || hits["page"].(map[string]any)["total"] != 30.0 {
		t.Errorf("%d hits of %v", got, hits["page"])
	}
	_, none := ask(t, c, "ann", "catalog?query=nothing")
	if got := none["cards"].([]any); len(got) != 0 {
		t.Errorf("hits for nothing: %v", got)
	}
	_, hits = ask(t, c, "ann", "catalog?query=hostile")
	id := hits["cards"].([]any)[0].(map[string]any)["id"].(string)
	status, e := ask(t, c, "ann", "catalog/entry?id="+strings.ReplaceAll(id, "#", "%23"))
	if status != 200 || e["id"] != id || e["description"] != visible.Text(hostile) || e["raw_name"] != "hostile" || e["upstream"] != "many" || !strings.HasPrefix(e["path"].(string), "/many/") {
		t.Errorf("the entry is %v", e)
	}
	schema := e["input_schema"].(map[string]any)["text"].(string)
	if !strings.Contains(schema, "\n  \"type\": \"object\"") || !strings.Contains(schema, "12345678901234567890") {
		t.Errorf("the schema is shown as %s", schema)
	}
	if got := e["annotations"].(map[string]any)["text"]; got != "{\n  \"readOnlyHint\": true\n}" {
		t.Errorf("the annotations are shown as %q", got)
	}
}

// TestShow: a page shows the beginning of a definition that is too long for a person to read.
func TestShow(t *testing.T) {
	deepOne := strings.Repeat("[", 5000) + strings.Repeat("]", 5000)
	for name, raw := range map[string]string{"none": "", "deep": deepOne, "long": `"` + strings.Repeat("é", maxDefinition) + `"`, "wide": "[" + strings.Repeat("1,", 30_000) + "1]", "broken": `{"a":`} {
		if raw == "" {
			if show(nil) != nil {
				t.Error("nothing is shown as something")
			}
			continue
		}
		d := show(json.RawMessage(raw))
		if len(d.Text) > 4*maxDefinition || d.Text == "" || d.Cut != (len(raw) > maxDefinition) {
			t.Errorf("%s: %d bytes of %d, cut: %t", name, len(d.Text), len(raw), d.Cut)
		}
		if !json.Valid([]byte(`"`+strings.NewReplacer(`"`, `\"`, "\n", `\n`).Replace(d.Text)+`"`)) && name != "broken" {
			t.Errorf("%s: a character is cut in half", name)
		}
	}
}

func TestArtifacts(t *testing.T) {
	w := newWorld(t)
	c := w.serve(t)
	put := func(principal, label, text string) string {
		t.Helper()
		a, err := w.store.Put(t.Context(), principal, "text/plain", label, []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return a.Handle
	}
	text := put("ann", hostile, hostile)
	rows := put("ann", "rows", `[{"a":"`+`\u003cb\u003e","n":12345678901234567890},{"a":{"deep":[1.50]},"z":null}]`)
	other := put("bob", "of bob", "secret of bob")
	writer := w.store.NewTable("ann", "table", table.Options{})
	if err := writer.Append([]byte(`{"x":1,"y":2}`)); err != nil {
		t.Fatal(err)
	}
	written, err := writer.Commit(t.Context())
	if err != nil {
		t.Fatal(err)
	}

	_, list := ask(t, c, "ann", "artifacts")
	byHandle := map[string]map[string]any{}
	for _, one := range list["artifacts"].([]any) {
		byHandle[one.(map[string]any)["handle"].(string)] = one.(map[string]any)
	}
	if len(byHandle) != 3 || byHandle[other] != nil {
		t.Fatalf("ann is shown %v", list)
	}
	if got := byHandle[written.Handle]; got["kind"] != "table" || got["rows"] != 1.0 || fmt.Sprint(got["columns"]) != "[x y]" {
		t.Errorf("the table is %v", got)
	}
	if got := byHandle[text]; got["kind"] != "artifact" || got["label"] != hostile || got["size_bytes"] != float64(len(hostile)) || got["created"] == "" || got["expires"] == "" {
		t.Errorf("the text is %v", got)
	}
	if _, list = ask(t, c, "ann", "artifacts?limit=1&offset=1"); len(list["artifacts"].([]any)) != 1 || list["page"].(map[string]any)["total"] != 3.0 {
		t.Errorf("a page is %v", list)
	}

	_, shown := ask(t, c, "ann", "artifacts/"+rows)
	if got := fmt.Sprint(shown["columns"], shown["rows"]); got != `[a n z] [[<b> 12345678901234567890] [{"deep":[1.50]}  null]]` {
		t.Errorf("the rows are %s", got)
	}
	if _, shown = ask(t, c, "ann", "artifacts/"+text); shown["text"] != hostile || shown["rows"] != nil || shown["notice"] != hostile {
		t.Errorf("the text is %v", shown)
	}
	if status, shown := ask(t, c, "ann", "artifacts/"+other); status != 404 || strings.Contains(fmt.Sprint(shown), "secret") {
		t.Errorf("what is bob's: status %d, %v", status, shown)
	}
}

// TestCells: what tool_view writes, bounded.
func TestCells(t *testing.T) {
	var wide strings.Builder
	wide.WriteString("[{")
	for i := range 3 * maxColumns {
		fmt.Fprintf(&wide, `"c%d":1,`, i)
	}
	wide.WriteString(`"last":"` + strings.Repeat("x", 2*maxCell) + `"}]`)
	names, rows, err := cells(wide.String())
	if shown, more := columns(names); err != nil || len(shown) != maxColumns || more != 2*maxColumns+1 || len(rows[0]) != maxColumns {
		t.Errorf("%d columns, %d more, %d cells, %v", len(shown), more, len(rows[0]), err)
	}
	if _, rows, err = cells(`[{"a":"` + strings.Repeat("x", 2*maxCell) + `"}]`); err != nil || len(rows[0][0]) != maxCell+len("…") {
		t.Errorf("a long cell has %d bytes, %v", len(rows[0][0]), err)
	}
	if _, rows, err = cells("[" + strings.Repeat(`{"a":1},`, 2*maxRows) + `{"a":1}]`); err != nil || len(rows) != maxRows {
		t.Errorf("%d rows, %v", len(rows), err)
	}
	for _, bad := range []string{"", "{}", "[1]", `[{"a":1}`, `[{"a":}]`} {
		if _, _, err := cells(bad); err == nil {
			t.Errorf("%q is rows", bad)
		}
	}
}

func TestOffices(t *testing.T) {
	w := newWorld(t)
	c := w.serve(t)
	if status, out := ask(t, c, "ann", "offices"); status != 200 || out["hub"] != false || len(out["members"].([]any)) != 0 || len(out["computers"].([]any)) != 0 {
		t.Errorf("without offices: %v", out)
	}
	w.offices = &Offices{Hub: true, Connections: 900}
	for i := range 700 {
		w.offices.Members = append(w.offices.Members, Member{Office: "home", Name: fmt.Sprint("m", i), Role: "computer"})
		w.offices.Computers = append(w.offices.Computers, Computer{Name: fmt.Sprint("m", i), Servers: make([]ComputerServer, 2*maxLimit)})
	}
	_, out := ask(t, c, "ann", "offices?limit=3&offset=699")
	computers := out["computers"].([]any)
	if len(out["members"].([]any)) != 1 || len(computers) != 1 || len(computers[0].(map[string]any)["servers"].([]any)) != maxLimit || out["page"].(map[string]any)["total"] != 700.0 {
		t.Errorf("a page of offices: %d members, %v", len(out["members"].([]any)), out["page"])
	}
}

// TestHiddenTextOfEntries: an operator sees the texts of a definition as they are
// seen, and in its schema an escape for each character that is not.
func TestHiddenTextOfEntries(t *testing.T) {
	w := newWorld(t)
	w.catalog, _ = w.catalog.With(primitive.Listing{Upstream: "odd", Namespace: "odd", Tools: []json.RawMessage{json.RawMessage(
		`{"name":"t","title":"T\u200b","description":"Reads.\u202e\udb40\udc49","inputSchema":{"type":"object","properties":{"a":{"description":"x\u00ad"}}}}`)}})
	c := w.serve(t)
	_, e := ask(t, c, "ann", "catalog/entry?id="+strings.ReplaceAll(w.catalog.Of("odd")[0].ID, "#", "%23"))
	if e["title"] != "T" || e["description"] != "Reads." {
		t.Errorf("%+q", e)
	}
	if schema := e["input_schema"].(map[string]any)["text"].(string); !strings.Contains(schema, `"x\u00ad"`) {
		t.Errorf("the schema is shown as %+q", schema)
	}
}
