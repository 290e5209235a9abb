package tables_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/testkit/calltest"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/jsonrpc"
)

// TestRefusedFetchesAreExplained: a consumer that knows of a failed fetch only its status has the
// reason in its error, with the tool whose rows they are and what helps.
func TestRefusedFetchesAreExplained(t *testing.T) {
	h := newElsewhere(t, threeStorms)
	fetched := func(params json.RawMessage) int {
		code, _ := post(t, rawjson.Text(rawjson.GetPath(params, "arguments", "resource_url")), "{}")
		return code
	}
	h.Add("chart", func(_ context.Context, params json.RawMessage, _ mcp.Handler) (json.RawMessage, error) {
		if code := fetched(params); code != http.StatusOK {
			return json.RawMessage(strings.Replace(calltest.Text(fmt.Sprintf("Server error '%d'", code)), "{", `{"isError":true,`, 1)), nil
		}
		return json.RawMessage(strings.Replace(calltest.Text("no wind to draw"), "{", `{"isError":true,`, 1)), nil
	}, chartTool)
	h.Add("plot", func(_ context.Context, params json.RawMessage, _ mcp.Handler) (json.RawMessage, error) {
		return nil, &jsonrpc.Error{Code: -32000, Message: fmt.Sprintf("Server error '%d'", fetched(params))}
	}, chartTool)
	answers := func(status int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "Error", status) }
	}
	draw := func(tool, url string) string {
		s := h.Execute(t, tool, "draw", fmt.Sprintf(`{"abstract_data":"[{\"_row_id\":0}]","resource_url":%q}`, url), "")
		var all []string
		for _, block := range s.Content {
			all = append(all, block.Text)
		}
		if !s.IsError {
			t.Errorf("no error: %q", all)
		}
		return strings.Join(all, "\n")
	}
	for name, c := range map[string]struct {
		status int
		want   []string
	}{
		"the plane fails": {500, []string{"'502'", "resource_url: the rows of native:alerts#", "answered with status 500", "again with mode sync"}},
		"it is busy":      {503, []string{"'503'", "resource_url: the rows of native:alerts#", "status 503", "still works"}},
	} {
		h.fail = answers(c.status)
		url := h.url(t)
		for _, tool := range []string{"chart", "plot"} {
			got := draw(tool, url)
			for _, want := range c.want {
				if !strings.Contains(got, want) {
					t.Errorf("%s, %s: no %q in %s", name, tool, want, got)
				}
			}
		}
	}
	h.fail = nil
	url := h.url(t)
	if got := draw("chart", url); got != "no wind to draw" {
		t.Errorf("an error after a fetch: %q", got)
	}
	if got := draw("chart", url); !strings.Contains(got, "'404'") || !strings.Contains(got, "works once") || !strings.Contains(got, "call the tool that gave it again") {
		t.Errorf("a spent URL: %q", got)
	}
}
