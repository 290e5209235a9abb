package gatewaytest

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/mcp/jsonrpc"
)

// AsProgram makes the test binary an MCP server on standard input, whose name is the value.
const AsProgram = "APP_TEST_AS_PROGRAM"

// programConfig returns the server "prog" for a configuration: each gateway that has it starts a program of its
// own.
func ProgramConfig(t *testing.T) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("prog: {command: %q, env: {%s: prog, GORACE: atexit_sleep_ms=0}}", self, AsProgram)
}

// ServeProgram is a server of 2026-07-28 whose tool slow makes a task, and whose tool ask asks for a name. Tasks and
// states work in the process that has made them.
func ServeProgram() {
	in := bufio.NewReader(os.Stdin)
	tasks := map[string]string{}
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return
		}
		m, err := jsonrpc.Parse(line)
		if err != nil || m.Kind() != jsonrpc.Request {
			continue
		}
		result := ""
		id := rawjson.Text(rawjson.Get(m.Params, "taskId"))
		switch m.Method {
		case "server/discover":
			result = `{"supportedVersions":["2026-07-28"],"serverInfo":{"name":"prog","version":"1"},"capabilities":{"tools":{},"extensions":{"io.modelcontextprotocol/tasks":{}}},"ttlMs":0,"cacheScope":"public","resultType":"complete"}`
		case "tools/list":
			result = `{"tools":[{"name":"slow","description":"works slowly","inputSchema":{"type":"object"}},{"name":"pid","description":"names the process","inputSchema":{"type":"object"}},{"name":"args","description":"returns its arguments","inputSchema":{"type":"object"}},{"name":"ask","description":"asks for a name","inputSchema":{"type":"object"}}],"ttlMs":0,"cacheScope":"public","resultType":"complete"}`
		case "tools/call":
			state := rawjson.Text(rawjson.Get(m.Params, "requestState"))
			own := fmt.Sprintf("state of %d", os.Getpid())
			switch {
			case rawjson.Text(rawjson.Get(m.Params, "name")) == "slow":
				id = fmt.Sprintf("t-%d-%d", os.Getpid(), len(tasks))
				tasks[id] = "working"
				result = `{"resultType":"task","taskId":"` + id + `","status":"working","createdAt":"2026-01-01T00:00:00Z","lastUpdatedAt":"2026-01-01T00:00:00Z","ttlMs":600000,"pollIntervalMs":100}`
			case rawjson.Text(rawjson.Get(m.Params, "name")) == "args":
				result = `{"content":[{"type":"text","text":` + string(rawjson.Quote(string(rawjson.Get(m.Params, "arguments")))) + `}],"resultType":"complete"}`
			case rawjson.Text(rawjson.Get(m.Params, "name")) == "pid":
				result = fmt.Sprintf(`{"content":[{"type":"text","text":"pid %d"}],"resultType":"complete"}`, os.Getpid())
			case state == "":
				result = `{"resultType":"input_required","requestState":"` + own + `","inputRequests":{"who":{"method":"elicitation/create","params":{"mode":"form","message":"Who?","requestedSchema":{"type":"object","properties":{"name":{"type":"string"}}}}}}}`
			case state == own:
				name := rawjson.Text(rawjson.GetPath(m.Params, "inputResponses", "who", "content", "name"))
				result = `{"content":[{"type":"text","text":"hello ` + name + `"}],"resultType":"complete"}`
			default:
				result = `{"content":[{"type":"text","text":"not my state"}],"isError":true,"resultType":"complete"}`
			}
		case "tasks/get", "tasks/cancel":
			if m.Method == "tasks/cancel" && tasks[id] != "" {
				tasks[id] = "cancelled"
			}
			if tasks[id] != "" {
				result = `{"resultType":"complete","taskId":"` + id + `","status":"` + tasks[id] + `","createdAt":"2026-01-01T00:00:00Z","lastUpdatedAt":"2026-01-01T00:00:00Z","ttlMs":600000,"pollIntervalMs":100}`
			}
		}
		answer := `{"jsonrpc":"2.0","id":` + string(m.ID) + `,"result":` + result + `}`
		if result == "" {
			why, _ := json.Marshal("no such thing here: " + m.Method) // a text
			answer = `{"jsonrpc":"2.0","id":` + string(m.ID) + `,"error":{"code":-32602,"message":` + string(why) + `}}`
		}
		if _, err := os.Stdout.WriteString(strings.TrimSpace(answer) + "\n"); err != nil {
			return
		}
	}
}
