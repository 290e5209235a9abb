package passthrough_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/passthrough"
	"github.com/weir-mcp/weir/internal/testkit/fakemcp"
	"github.com/weir-mcp/weir/mcp"
)

// shownJudge shows no tools.
type shownJudge struct{ judgeFunc }

func (shownJudge) Shown(_ context.Context, upstream string, r *mcp.Request, result json.RawMessage) (json.RawMessage, error) {
	if upstream == "fake" && r.Method == "tools/list" {
		return json.RawMessage(`{"tools":[{"name":"shown","inputSchema":{"type":"object"}}]}`), nil
	}
	return result, nil
}

// What the Judge does not show is in no list, at each path, in each era and in a batch.
func TestJudgeShows(t *testing.T) {
	j := shownJudge{func(context.Context, string, *mcp.Request) error { return nil }}
	judged(t, j, fakemcp.Config{}, func(t *testing.T, e *env) {
		id := e.initialize("2025-03-26")
		list := `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`
		for name, tt := range map[string]struct {
			body   string
			header []string
		}{
			"a session":  {list, []string{"Mcp-Session-Id", id}},
			"no session": {list, nil},
			"a batch":    {"[" + list + "]", []string{"Mcp-Session-Id", id}},
			"modern":     {modern(`"id":1,"method":"tools/list"`, ""), modernHeader("tools/list", "")},
		} {
			for _, path := range []string{"/mcps/fake/mcp", "/mcp/fake/mcp"} {
				res := e.post(path, tt.body, tt.header...)
				if all := strings.Join(res.msgs, "\n"); !strings.Contains(all, `"shown"`) || strings.Contains(all, `"counter"`) || strings.Contains(all, `"echo"`) {
					t.Errorf("%s at %s: %d %s", name, path, res.status, res.body)
				}
			}
		}
	})
}

// refusingJudge refuses the answers about tasks.
type refusingJudge struct{ judgeFunc }

func (refusingJudge) Shown(_ context.Context, _ string, r *mcp.Request, result json.RawMessage) (json.RawMessage, error) {
	if r.Method == "tasks/result" && rawjson.Text(rawjson.Get(r.Params, "taskId")) == "t-1" {
		return nil, mcp.Errorf(mcp.KindPermissionDenied, "not today")
	}
	return result, nil
}

// TestJudgeRefusesTasks: what the Judge refuses of a task is not told without a message, either.
func TestJudgeRefusesTasks(t *testing.T) {
	e, _ := startAgent(t, func(_ *config.Server, o *passthrough.Options) { o.Judge = refusingJudge{everything} })
	res := e.do(e.request(t.Context(), http.MethodGet, "/mcps/fake/task?taskId=t-1", ""))
	if !strings.Contains(res.body, "not today") || strings.Contains(res.body, "running") {
		t.Errorf("%d %s", res.status, res.body)
	}
}
