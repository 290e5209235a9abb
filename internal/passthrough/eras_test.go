package passthrough_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/passthrough"
	"github.com/weir-mcp/weir/internal/testkit/fakemcp"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/streamable"
)

// questions are the tools of the fake server that ask, and what they ask.
var questions = map[string]string{"sample": "sampling/createMessage", "elicit": "elicitation/create", "roots": "roots/list"}

// legacyOnly is what a server speaks that knows no modern era.
var legacyOnly = []string{"2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"}

// modernAsk makes a tools/call as a modern client that can be asked everything.
func (e *env) modernAsk(path, tool, arguments, more string) (json.RawMessage, result) {
	e.t.Helper()
	body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"` + tool + `","arguments":` + arguments + more +
		`,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},` +
		`"io.modelcontextprotocol/clientCapabilities":{"sampling":{},"elicitation":{"form":{}},"roots":{}}}}}`
	res := e.post(path, body, "MCP-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", tool)
	if len(res.msgs) == 0 {
		e.t.Fatalf("no answer: %d %s", res.status, res.body)
	}
	return json.RawMessage(rawjson.Get([]byte(res.msgs[len(res.msgs)-1]), "result")), res
}

// answersTo are inputResponses for each of the questions of a result.
func answersTo(t testing.TB, result json.RawMessage, method, answer string) string {
	t.Helper()
	var parts []string
	_ = rawjson.EachMember(rawjson.Get(result, "inputRequests"), func(m rawjson.Member) bool {
		if got := rawjson.Text(rawjson.Get(m.Value, "method")); got != method {
			t.Errorf("asked for %s, want %s", got, method)
		}
		parts = append(parts, fmt.Sprintf("%q:%s", m.Key, answer))
		return true
	})
	if len(parts) == 0 {
		t.Fatalf("no question: %s", result)
	}
	return `,"requestState":` + string(rawjson.Get(result, "requestState")) + `,"inputResponses":{` + strings.Join(parts, ",") + `}`
}

// TestModernAgentsAreAsked: what a server asks reaches a modern agent as
// input_required, whichever era the server is of, as often as it asks.
func TestModernAgentsAreAsked(t *testing.T) {
	for name, start := range map[string]func(t testing.TB) *env{
		"legacy program": func(t testing.TB) *env { return startProcess(t, fakemcp.Config{Versions: legacyOnly}, nil) },
		"legacy HTTP":    func(t testing.TB) *env { return startHTTP(t, fakemcp.Config{Versions: legacyOnly}, nil) },
		"modern HTTP":    func(t testing.TB) *env { return startHTTP(t, fakemcp.Config{}, nil) },
		"modern program": func(t testing.TB) *env {
			return startProcess(t, fakemcp.Config{Versions: []string{fakemcp.Modern}}, nil)
		},
		"own connection": func(t testing.TB) *env {
			return startProcess(t, fakemcp.Config{Versions: legacyOnly}, perSession)
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := start(t)
			for tool, method := range questions {
				const rounds = 3
				result, res := e.modernAsk(mcpPath, tool, fmt.Sprintf(`{"rounds":%d}`, rounds), "")
				for i := 1; i <= rounds; i++ {
					if res.status != http.StatusOK || rawjson.Text(rawjson.Get(result, "resultType")) != "input_required" {
						t.Fatalf("%s, round %d: %d %s", tool, i, res.status, res.body)
					}
					result, res = e.modernAsk(mcpPath, tool, fmt.Sprintf(`{"rounds":%d}`, rounds), answersTo(t, result, method, fmt.Sprintf(`{"n":%d}`, i)))
				}
				want := `"text":"{\"n\":3}"`
				if !strings.Contains(string(result), want) || !strings.Contains(string(result), `"resultType":"complete"`) {
					t.Errorf("%s: %s, want %s", tool, result, want)
				}
			}
		})
	}
}

func perSession(s *config.Server, _ *passthrough.Options) { s.PerSession = true }

// TestLegacyAgentsAreAsked: the questions of a modern server become requests to a
// legacy agent.
func TestLegacyAgentsAreAsked(t *testing.T) {
	e := startProcess(t, fakemcp.Config{Versions: []string{fakemcp.Modern}}, nil)
	var mu sync.Mutex
	asked := map[string]int{}
	c, err := streamable.Dial(t.Context(), streamable.ClientOptions{
		URL: e.url + mcpPath, Name: "the router", Header: http.Header{"Authorization": {"Bearer alice"}},
		Capabilities: json.RawMessage(`{"sampling":{},"elicitation":{},"roots":{}}`), ProtocolVersion: mcp.V20251125,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	person := mcp.HandlerFunc(func(_ context.Context, r *mcp.Request) (json.RawMessage, error) {
		mu.Lock()
		defer mu.Unlock()
		asked[r.Method]++
		return fmt.Appendf(nil, `{"n":%d}`, asked[r.Method]), nil
	})
	for tool, method := range questions {
		result, err := c.Call(t.Context(), "tools/call", json.RawMessage(`{"name":"`+tool+`","arguments":{"rounds":5}}`), person)
		if err != nil || !strings.Contains(string(result), `"text":"{\"n\":5}"`) || asked[method] != 5 {
			t.Errorf("%s: %s %v after %d questions", tool, result, err, asked[method])
		}
	}
}

// TestParkedCallsEndWithTheRouter: a call whose agent never comes back does not
// keep anything alive.
func TestParkedCallsEndWithTheRouter(t *testing.T) {
	e := startProcess(t, fakemcp.Config{Versions: legacyOnly}, nil)
	for range 5 {
		if result, res := e.modernAsk(mcpPath, "elicit", "{}", ""); rawjson.Text(rawjson.Get(result, "resultType")) != "input_required" {
			t.Fatalf("%d %s", res.status, res.body)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	start := time.Now()
	if err := e.router.Shutdown(ctx); err != nil || time.Since(start) > 15*time.Second {
		t.Errorf("%v after %v", err, time.Since(start))
	}
}
