package cli

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/gateway"
)

// gossip is an MCP server that tells its URL and its headers in all that it says.
func gossip(t *testing.T) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var request struct {
			ID     json.RawMessage
			Method string
		}
		if json.Unmarshal(body, &request) != nil || request.ID == nil {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		key := r.URL.Query().Get("tavilyApiKey")
		said, _ := json.Marshal(fmt.Sprintf("URL %s, key %s, %s, lower %s", r.URL, key, base64.StdEncoding.EncodeToString([]byte("user:"+key)), strings.ToLower(url.QueryEscape(key))))
		w.Header().Set("Content-Type", "application/json")
		answer := `"error":{"code":-32000,"message":` + string(said) + `,"data":{"said":` + string(said) + `}}`
		switch request.Method {
		case "initialize":
			answer = `"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{},"prompts":{}},"serverInfo":{"name":"gossip","version":"1"},"instructions":` + string(said) + `}`
		case "tools/list":
			answer = `"result":{"tools":[{"name":"gossip","title":` + string(said) + `,"description":` + string(said) + `,"inputSchema":{"type":"object","properties":{"key":{"type":"string","description":` + string(said) + `,"default":` + string(said) + `}}}}]}`
		case "prompts/list":
			answer = `"result":{"prompts":[{"name":"talk","description":` + string(said) + `}]}`
		}
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,%s}`, request.ID, answer)
	}))
	t.Cleanup(s.Close)
	return s
}

// TestSecretsByPlace: what is secret by its place in a URL or among arguments is told
// by no description, error, page or log, in whatever form a server repeats it.
func TestSecretsByPlace(t *testing.T) {
	t.Parallel()
	g := gossip(t)
	const query, path, argument = "tvly/letmein=please", "Zk3x9QpL0vT7mN2bQ8", "opensesame-now"
	config := fmt.Sprintf(`{"expose_hydrate": true, "mcpServers": {
  "gossip": {"url": "%s/s/%s/mcp?tavilyApiKey=%s"},
  "broken": {"command": "/bin/sh", "args": ["-c", "echo \"no such account: $2\" >&2; exit 3", "sh", "--token", "%s"]}
}}`, g.URL, path, url.QueryEscape(query), argument)
	file := writeConfig(t, "weir.json", config)
	s := start(t, file, "serve", "--config", file, "--listen", "127.0.0.1:0")
	s.await("both have answered", func(h gateway.Health) bool {
		return h.Upstreams["gossip"].Tools > 0 && strings.Contains(h.Upstreams["broken"].Error, "no such account")
	})

	told := map[string]string{}
	for _, page := range []string{"/healthz", "/status/data", "/catalog", "/", "/console/api/overview"} {
		_, told[page] = get(t, s.base+page)
	}
	id := s.tool("gossip:gossip")
	for _, args := range [][]string{
		{"ls"}, {"ls", "--tools"}, {"ls", "--json"}, {"browse", "/gossip"}, {"search", "key", "--json"}, {"call", id}, {"call", id, "--json"}, {"call", "broken:x"}, {"search", "key"},
	} {
		f := weir(t, append(args, "--url", s.url)...)
		told["weir "+strings.Join(args, " ")] = f.stdout + f.stderr
	}
	const media = "application/json"
	for method, params := range map[string]string{
		"prompts/list": `{}`, "prompts/get": `{"name":"talk"}`, "tools/list": `{}`,
		"tools/call": fmt.Sprintf(`{"name":"tool_hydrate","arguments":{"tool_id":%q}}`, id),
	} {
		body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":%s}`, method, strings.Replace(params, "{", `{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}},`, 1))
		body = strings.Replace(body, ",}", "}", 1)
		_, told[method] = exchange(t, "POST", s.url, body, "Content-Type", media, "Accept", media+", text/event-stream", "MCP-Protocol-Version", "2026-07-28", "Mcp-Method", method, "Mcp-Name", map[string]string{"prompts/get": "talk", "tools/call": "tool_hydrate"}[method])
	}
	told["the log"] = s.stderr.String()

	secrets := []string{
		query, url.QueryEscape(query), strings.ToLower(url.QueryEscape(query)), "letmein", path, argument,
		base64.StdEncoding.EncodeToString([]byte("user:" + query)), strings.TrimRight(base64.StdEncoding.EncodeToString([]byte("user:"+query)), "=")[4:20],
	}
	for where, text := range told {
		for _, secret := range secrets {
			if strings.Contains(text, secret) {
				t.Errorf("%s tells %q: %.2000s", where, secret, text)
				break
			}
		}
	}
	for _, where := range []string{"/healthz", "prompts/list", "prompts/get", "tools/call", "weir ls", "weir call " + id, "weir browse /gossip"} {
		if !strings.Contains(told[where], "[redacted]") {
			t.Errorf("%s has no placeholder: %.2000s", where, told[where])
		}
	}
}
