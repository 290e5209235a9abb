package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/gateway"
)

// TestOverrides: agents see tools as the configuration has them, at /mcp in all modes, in programs and at
// /mcps; the server gets its own name and the fixed values; show and the audit log tell both.
func TestOverrides(t *testing.T) {
	t.Parallel()
	const config = `
inputs: [{id: words, type: command, command: echo, args: [fixed-words-of-weir]}]
mcpServers:
  fake:
    command: "%FAKE%"
    overrides:
      echo: {name: say, title: Say, description: Says what the operator wants., hide: [size], fixed: {text: "${input:words}"}, annotations: {readOnlyHint: true}}
      refuse: {default: {message: not-today}}
      sleep: {hide: [sleep_ms]}
      gone: {name: nothing}
`
	modern := func(t *testing.T, s *server, method, tool, params string) string {
		t.Helper()
		body := `{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}` + params + `}}`
		const media = "application/json"
		_, answer := exchange(t, "POST", s.url, body, "Content-Type", media, "Accept", media+", text/event-stream", "MCP-Protocol-Version", "2026-07-28", "Mcp-Method", method, "Mcp-Name", tool)
		return answer
	}
	for _, mode := range []string{"gateway", "plain", "proxy"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			file := writeConfig(t, "weir.yaml", "audit: {dir: audit}\n"+config)
			s := start(t, file, "serve", "--config", file, "--listen", "127.0.0.1:0", "--mode", mode)
			s.await("fake is listed", func(h gateway.Health) bool { return h.Upstreams["fake"].Tools > 0 })
			id := s.tool("fake:say")
			call := func(tool, args string) string {
				t.Helper()
				if mode == "gateway" {
					return modern(t, s, "tools/call", "tool_execute", `,"name":"tool_execute","arguments":{"tool_id":"`+s.tool(tool)+`","args":`+args+`}`)
				}
				name := strings.ReplaceAll(tool, ":", "__")
				return modern(t, s, "tools/call", name, `,"name":"`+name+`","arguments":`+args)
			}
			for _, c := range []struct{ tool, args, want string }{
				{"fake:say", `{}`, "fixed-words-of-weir"}, {"fake:say", `{"text":"mine"}`, `no parameter`}, {"fake:say", `{"size":3}`, `no parameter`},
				{"fake:refuse", `{}`, "not-today"}, {"fake:refuse", `{"message":"tomorrow"}`, "tomorrow"},
			} {
				if got := call(c.tool, c.args); !strings.Contains(got, c.want) || strings.Contains(got, "mine: ") {
					t.Errorf("%s %s: %s, want %q", c.tool, c.args, got, c.want)
				}
			}
			if mode != "gateway" {
				list := modern(t, s, "tools/list", "", "")
				if !strings.Contains(list, `"fake__say"`) || strings.Contains(list, "fake__echo") || strings.Contains(list, "fake__sleep") || strings.Contains(list, "fixed-words") {
					t.Errorf("the list is %s", list)
				}
				return
			}
			at := s.base + "/mcps/fake/mcp"
			for params, want := range map[string]string{
				`{"name":"say","arguments":{}}`: "fixed-words-of-weir", `{"name":"say"}`: "fixed-words-of-weir", `{"name":"say","arguments":{"TEXT":"x"}}`: "no parameter",
				`{"name":"echo","arguments":{"text":"x"}}`: "Unknown tool: echo", `{"name":"counter"}`: `"text":"1"`,
			} {
				if _, body := ask(t, at, "", "tools/call", params); !strings.Contains(body, want) {
					t.Errorf("at /mcps: %s: %s, want %q", params, body, want)
				}
			}
			if _, list := ask(t, at, "", "tools/list", "{}"); !strings.Contains(list, `"name":"say","description":"Says what the operator wants."`) || strings.Contains(list, `"echo"`) || strings.Contains(list, "fixed-words") {
				t.Errorf("the list at /mcps is %s", list)
			}
			if body := modern(t, s, "tools/call", "tool_run", `,"name":"tool_run","arguments":{"program":"return await tools.fake.say({})"}`); !strings.Contains(body, "fixed-words-of-weir") {
				t.Errorf("the program: %s", body)
			}
			if body := modern(t, s, "tools/call", "tool_execute", `,"name":"tool_execute","arguments":{"tool_id":"`+id+`","args":{},"dry_run":true}`); strings.Contains(body, "fixed-words") || !strings.Contains(body, "dry_run") {
				t.Errorf("the dry run: %s", body)
			}
			weir(t, "show", "fake:say", "--url", s.url).want(t, exitOK, "say()", "Says what the operator wants.", "overridden; the server's definition: echo(", "Returns its text", "only reads")
			if f := weir(t, "show", "fake:say", "--json", "--url", s.url); strings.Contains(f.stdout, "fixed-words") {
				t.Errorf("show tells the value: %s", f.stdout)
			}
			log := s.stderr.String()
			for _, want := range []string{`mcpServers.fake.overrides.sleep.hide: the server requires the parameter`, `server \"fake\" lists no tool \"gone\"`} {
				if !strings.Contains(log, want) {
					t.Errorf("the log has no %q: %s", want, log)
				}
			}
			logs, _ := filepath.Glob(filepath.Join(filepath.Dir(file), "audit", "*"))
			var all strings.Builder
			for _, name := range logs {
				data, _ := os.ReadFile(name)
				all.Write(data)
			}
			if !strings.Contains(all.String(), "the server's name of the tool is echo") {
				t.Errorf("the audit log does not name echo: %.2000s", all.String())
			}
		})
	}
}
