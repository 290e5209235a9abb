package tables_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/metatool"
	"github.com/weir-mcp/weir/internal/testkit/calltest"
)

// A tool on a machine that the gateway's data plane is not reached from gets the
// rows with its call, and those alone that it was given.
func TestRowsAreCarried(t *testing.T) {
	far := func(upstream string) bool { return upstream != "far" }
	for name, url := range map[string]func(h *elsewhere) string{
		"kept here": func(h *elsewhere) string { return h.offer(t, keep(t, h.Harness, threeStorms)) },
		"elsewhere": func(h *elsewhere) string { return h.url(t) },
	} {
		h := newElsewhere(t, threeStorms)
		h.Change(func(o *metatool.Options) { o.Tables.Fetches = far })
		h.Add("far", calltest.Echo, chartTool)
		h.Add("chart", calltest.Echo, chartTool)
		h.Add("plain", calltest.Echo, strings.Replace(chartTool, `"body_data":{"type":"string"},`, "", 1))
		from := url(h)
		args := func(abstract, url string) string {
			return `{"column_mapping":"{}","abstract_data":` + string(rawjson.Quote(abstract)) + `,"resource_url":"` + url + `"}`
		}
		some := args(`[{"_row_id":2,"event":"x"},{"_row_id":0}]`, from)
		h.Execute(t, "far", "draw", some, `,"dry_run":true`)
		// Nothing to fetch, nothing to do: the tool says what is wrong.
		for _, abstract := range []string{`[]`, `no rows`, `[{"event":"x"}]`} {
			h.Execute(t, "far", "draw", args(abstract, from), "")
			if got := string(lastArgs(t, h.Harness)); got != args(abstract, from) {
				t.Errorf("%s, %s: %s", name, abstract, got)
			}
		}
		// Those who reach the gateway fetch.
		h.Execute(t, "chart", "draw", some, "")
		if got := string(lastArgs(t, h.Harness)); got != some {
			t.Errorf("%s: a server that reaches it: %s", name, got)
		}
		s := h.Execute(t, "far", "draw", some, "")
		want := `{"column_mapping":"{}","abstract_data":"[{\"_row_id\":2,\"event\":\"x\"},{\"_row_id\":0}]","body_data":"[{\"_row_id\":0,\"event\":\"Wind\",\"wind\":1},{\"_row_id\":2,\"event\":\"Wind\",\"wind\":3}]"}`
		if got := string(lastArgs(t, h.Harness)); s.IsError || got != want {
			t.Errorf("%s: %+v\n got %s\nwant %s", name, s.Content, got, want)
		}
		if name == "elsewhere" && (len(h.asked) != 1 || h.asked[0] != `{"row_ids":[2,0]}`) {
			t.Errorf("its server was asked for %s", h.asked)
		}
		if e := calltest.Failure(t, h.Execute(t, "far", "draw", some, "")); e.Error != "ARGS_INVALID" || !strings.Contains(e.Message, "works once") {
			t.Errorf("%s: twice: %+v", name, e)
		}
		// What is not the gateway's passes, and so does a call of a tool that takes no body.
		for tool, url := range map[string]string{"far": "http://elsewhere.example/s2sp/data/x", "plain": from} {
			h.Execute(t, tool, "draw", args(`[{"_row_id":0}]`, url), "")
			if got := string(lastArgs(t, h.Harness)); got != args(`[{"_row_id":0}]`, url) {
				t.Errorf("%s: %s to %s: %s", name, url, tool, got)
			}
		}
	}
}

// More rows than a call may have are refused, and can be asked for in part.
func TestCarriedRowsAreBounded(t *testing.T) {
	h := newElsewhere(t, `[{"text":"`+strings.Repeat("row ", 5<<18)+`"},{"text":"`+strings.Repeat("day ", 5<<18)+`"}]`)
	h.Change(func(o *metatool.Options) { o.Tables.Fetches = func(string) bool { return false } })
	h.Add("far", calltest.Echo, chartTool)
	url := h.url(t)
	draw := func(ids string) calltest.Answer {
		return h.Execute(t, "far", "draw", fmt.Sprintf(`{"abstract_data":%q,"resource_url":%q}`, ids, url), "")
	}
	if e := calltest.Failure(t, draw(`[{"_row_id":0},{"_row_id":1}]`)); e.Error != "ARGS_INVALID" || !strings.Contains(e.Message, "choose fewer rows") {
		t.Errorf("%+v", e)
	}
	if s := draw(`[{"_row_id":1}]`); s.IsError || len(rawjson.Text(rawjson.Get(lastArgs(t, h.Harness), "body_data"))) < 5<<20 || len(h.asked) != 1 {
		t.Errorf("one row: %.200s, asked %d times", s.Content[0].Text, len(h.asked))
	}
}
