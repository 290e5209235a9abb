package fakemcp

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

const (
	initialize = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`
	discover   = `{"jsonrpc":"2.0","id":2,"method":"server/discover","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`
	ping       = `{"jsonrpc":"2.0","id":3,"method":"ping"}`
)

// modernCall is a tools/call of the modern era.
func modernCall(id int, tool, arguments string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"%s","arguments":%s,"_meta":{`+
		`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`, id, tool, arguments)
}

func legacyCall(id int, tool, arguments string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"%s","arguments":%s}}`, id, tool, arguments)
}

// exchange writes lines to a server over stdio, closes its input and gives the lines it wrote.
func exchange(t *testing.T, cfg Config, lines ...string) []string {
	t.Helper()
	s := newServer(t, cfg)
	var out bytes.Buffer
	if err := s.ServeStdio(t.Context(), strings.NewReader(strings.Join(lines, "\n")+"\n"), &out); err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
}

func TestTranscripts(t *testing.T) {
	result := func(id int) string { return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{`, id) }
	fault := func(id string, code int) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":%d,`, id, code)
	}
	legacy := []string{"2025-11-25", "2025-03-26"}
	for _, c := range []struct {
		name  string
		cfg   Config
		lines []string
		want  []string // beginnings of the lines written
	}{
		{"well behaved", Config{}, []string{initialize, ping, discover}, []string{result(1), result(3), result(2)}},
		{"hang", Config{Init: InitHang}, []string{initialize, discover, ping}, []string{result(3)}},
		{"hang on discover", Config{Init: InitHangDiscover}, []string{discover, initialize}, []string{result(1)}},
		{"error", Config{Init: InitError}, []string{initialize, discover, ping}, []string{fault("1", codeInternal), fault("2", codeInternal), result(3)}},
		{"legacy only", Config{Versions: legacy}, []string{discover, initialize}, []string{fault("2", codeMethodNotFound), result(1) + `"protocolVersion":"2025-11-25"`}},
		{"legacy only does not know modern calls", Config{Versions: legacy}, []string{modernCall(4, "echo", "{}")}, []string{fault("4", codeInvalidRequest)}},
		{"older version", Config{Versions: legacy[1:]}, []string{initialize}, []string{result(1) + `"protocolVersion":"2025-03-26"`}},
		{"modern only", Config{Versions: []string{Modern}}, []string{initialize, discover, modernCall(4, "echo", `{"text":"x"}`)}, []string{
			fault("1", codeMethodNotFound), result(2), result(4) + `"content":[{"type":"text","text":"x"}],"resultType":"complete"`,
		}},
		{"unknown modern version", Config{}, []string{strings.Replace(discover, "2026-07-28", "2027-01-01", 1)}, []string{
			fault("2", codeUnsupportedVersion) + `"message":"unsupported protocol version","data":{"supported":["2026-07-28","2025-11-25","2025-06-18","2025-03-26","2024-11-05"],"requested":"2027-01-01"}`,
		}},
		{"no capabilities", Config{}, []string{strings.Replace(discover, "clientCapabilities", "other", 1)}, []string{fault("2", codeInvalidParams)}},
		{"discover without a version", Config{}, []string{`{"jsonrpc":"2.0","id":2,"method":"server/discover"}`}, []string{fault("2", codeInvalidParams)}},
		{"no ping in the modern era", Config{}, []string{strings.Replace(discover, "server/discover", "ping", 1)}, []string{fault("2", codeMethodNotFound)}},
		{"call before initialize", Config{}, []string{legacyCall(4, "echo", "{}")}, []string{fault("4", codeInvalidRequest)}},
		{"no message", Config{}, []string{"junk", "[]", `{"jsonrpc":"2.0"}`, `{"params":[1]}`}, []string{
			fault("null", codeParse), fault("null", codeParse), fault("null", codeInvalidRequest), fault("null", codeParse),
		}},
		{"ids come back as they are", Config{}, []string{strings.Replace(ping, "3", "9007199254740993", 1), strings.Replace(ping, "3", `"\u0041"`, 1)}, []string{
			`{"jsonrpc":"2.0","id":9007199254740993,"result":{}}`, `{"jsonrpc":"2.0","id":"\u0041","result":{}}`,
		}},
		{"list_changed first", Config{ListChangedBeforeInit: true}, []string{initialize}, []string{`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`, result(1)}},
		{"odd", Config{}, []string{modernCall(4, "odd", "{}")}, []string{result(4) + OddResult}},
		{"broken tools can be called", Config{Broken: true}, []string{modernCall(4, "broken_null", `{"text":"x"}`)}, []string{result(4) + `"content":[{"type":"text","text":"x"}]`}},
		{"and are not there otherwise", Config{}, []string{modernCall(4, "broken_null", `{"text":"x"}`)}, []string{fault("4", codeInvalidParams)}},
		{"size out of bounds", Config{}, []string{modernCall(4, "echo", `{"size":999999999999}`)}, []string{fault("4", codeInvalidParams)}},
		{"input required", Config{}, []string{modernCall(4, "roots", "{}")}, []string{result(4) + `"inputRequests":{"ask":{"method":"roots/list","params":{}}},"requestState":"round-1","resultType":"input_required"`}},
		{"input of another call", Config{}, []string{strings.Replace(modernCall(4, "roots", "{}"), `"name"`, `"requestState":"round-7","inputResponses":{"ask":{}},"name"`, 1)}, []string{fault("4", codeInvalidParams)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := exchange(t, c.cfg, c.lines...)
			if len(got) != len(c.want) {
				t.Fatalf("%d lines, want %d:\n%s", len(got), len(c.want), strings.Join(got, "\n"))
			}
			for i := range got {
				if !json.Valid([]byte(got[i])) {
					t.Errorf("line %d is not JSON: %s", i, got[i])
				}
			}
			// What needs time is answered by a goroutine of its own; the order is free then.
			for _, want := range c.want {
				if !slices.ContainsFunc(got, func(line string) bool { return strings.HasPrefix(line, want) }) {
					t.Errorf("no line begins with\n%s\nin\n%s", want, strings.Join(got, "\n"))
				}
			}
			if c.cfg.ListChangedBeforeInit && !strings.HasPrefix(got[0], c.want[0]) {
				t.Errorf("the first line is %s", got[0])
			}
		})
	}
}

func TestConfigIsChecked(t *testing.T) {
	for _, cfg := range []Config{{Versions: []string{"2020-01-01"}}, {Versions: []string{}}, {Init: "maybe"}, {Tools: -1}, {Tools: maxTools + 1}} {
		if _, err := New(cfg); err == nil {
			t.Errorf("New(%+v) succeeded", cfg)
		}
	}
}

func TestJunkLines(t *testing.T) {
	messages, rest := 0, 0
	for _, line := range exchange(t, Config{Init: InitJunk}, initialize, ping) {
		if strings.HasPrefix(line, `{"jsonrpc":"2.0","id":`) && json.Valid([]byte(line)) {
			messages++
		} else {
			rest++
		}
	}
	if messages != 2 || rest != 2*len(junk()) {
		t.Errorf("%d messages between %d lines of junk, want 2 and %d", messages, rest, 2*len(junk()))
	}
}

func TestExits(t *testing.T) {
	for _, c := range []struct {
		init Init
		line string
		want int64
	}{
		{InitExit, initialize, 1},
		{InitExit, discover, 1},
		{InitExitDiscover, discover, 1},
		{InitExitDiscover, initialize, -1},
		{InitNormal, modernCall(4, "crash", `{"code":9}`), 9},
	} {
		var code atomic.Int64
		code.Store(-1)
		var stderr bytes.Buffer
		exchange(t, Config{Init: c.init, Exit: func(n int) { code.Store(int64(n)) }, Stderr: &stderr}, c.line)
		if code.Load() != c.want || (c.want >= 0) != strings.Contains(stderr.String(), "told to") {
			t.Errorf("%s on %.60s: exit %d with %q, want %d", c.init, c.line, code.Load(), stderr.String(), c.want)
		}
	}
}

func TestStartDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, Config{StartDelay: time.Hour})
		p := serveOnPipe(t, s)
		start := time.Now()
		if _, err := io.WriteString(p.out, initialize+"\n"); err != nil {
			t.Fatal(err)
		}
		line, err := bufio.NewReader(p.in).ReadString('\n')
		if err != nil || !strings.Contains(line, `"result"`) || time.Since(start) != time.Hour {
			t.Errorf("after %v: %s, %v", time.Since(start), line, err)
		}
	})
}

func TestDuplicateIDInFlight(t *testing.T) {
	got := exchange(t, Config{}, initialize, legacyCall(7, "sleep", `{"sleep_ms":60000}`), legacyCall(7, "sleep", `{"sleep_ms":0}`))
	if len(got) != 2 || !strings.HasPrefix(got[1], `{"jsonrpc":"2.0","id":7,"error":{"code":-32600`) {
		t.Errorf("answers %q, want a refusal of the second call", got)
	}
}

func TestBrokenDefinitions(t *testing.T) {
	p := exchange(t, Config{Broken: true, Bare: true}, initialize, `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`)
	var list struct {
		Result struct {
			Tools []map[string]json.RawMessage
		}
	}
	if err := json.Unmarshal([]byte(p[1]), &list); err != nil {
		t.Fatal(err)
	}
	schemas := map[string]string{}
	for _, tool := range list.Result.Tools {
		schemas[string(tool["name"])] = string(tool["inputSchema"])
	}
	if len(schemas) != len(brokenDefinitions()) || schemas[`"broken_missing"`] != "" || schemas[`"broken_null"`] != "null" || schemas[`"broken_string"`] != `"object"` {
		t.Errorf("schemas %q", schemas)
	}
}

// post sends one message over HTTP and gives the status, the session id and the body.
func post(t *testing.T, client *http.Client, url, body string, header ...string) (int, string, string) {
	t.Helper()
	return do(t, client, http.MethodPost, url, body, header...)
}

func do(t *testing.T, client *http.Client, method, url, body string, header ...string) (int, string, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", "application/json, text/event-stream")
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, resp.Header.Get(sessionHeader), string(data)
}

func TestSessionsOverHTTP(t *testing.T) {
	s := newServer(t, Config{LoseSession: 2})
	url, client := serveOnHTTP(t, s)
	url += "/mcp"
	_, first, _ := post(t, client, url, initialize)
	_, second, _ := post(t, client, url, initialize)
	if first == "" || first == second {
		t.Fatalf("sessions %q and %q", first, second)
	}
	count := legacyCall(5, "counter", "{}")
	for _, c := range []struct {
		what, method, body, session string
		status                      int
		want                        string
	}{
		{"first call", "POST", count, first, 200, `"text":"1"`},
		{"another session counts by itself", "POST", count, second, 200, `"text":"1"`},
		{"second call", "POST", count, first, 200, `"text":"2"`},
		{"third call finds the session lost", "POST", count, first, 404, `"code":-32001`},
		{"and so does what follows", "POST", ping, first, 404, `"code":-32001`},
		{"and a stream", "GET", "", first, 404, `"code":-32001`},
		{"no session", "POST", count, "", 400, sessionHeader},
		{"a notification", "POST", `{"jsonrpc":"2.0","method":"notifications/initialized"}`, second, 202, ""},
		{"no message", "POST", `[]`, second, 400, `"code":-32700`},
		{"no such method of HTTP", "PUT", "", second, 405, ""},
		{"delete", "DELETE", "", second, 204, ""},
		{"after the deletion", "POST", count, second, 404, `"code":-32001`},
	} {
		status, _, body := do(t, client, c.method, url, c.body, sessionHeader, c.session)
		if status != c.status || !strings.Contains(body, c.want) {
			t.Errorf("%s: %d %s, want %d with %s", c.what, status, body, c.status, c.want)
		}
	}
	for _, want := range []string{"initialize 2025-11-25", "session " + first, "session lost " + first, "session deleted " + second} {
		if !slices.Contains(s.Events(), want) {
			t.Errorf("no event %q in %q", want, s.Events())
		}
	}
	if s.Messages() != 11 {
		t.Errorf("%d messages, want 11", s.Messages())
	}
}

func TestModernHeaders(t *testing.T) {
	url, client := serveOnHTTP(t, newServer(t, Config{}))
	url += "/mcp"
	const version, method, name, region = "MCP-Protocol-Version", "Mcp-Method", "Mcp-Name", "Mcp-Param-Region"
	call := modernCall(5, "region", `{"region":"north"}`)
	for _, c := range []struct {
		what   string
		body   string
		header []string
		status int
		want   string
	}{
		{"all right", call, []string{version, Modern, method, "tools/call", name, "region", region, "north"}, 200, `"text":"north"`},
		{"encoded", call, []string{version, Modern, method, "tools/call", name, "region", region, "=?base64?bm9ydGg=?="}, 200, `"text":"north"`},
		{"no version", call, []string{method, "tools/call", name, "region", region, "north"}, 400, `"code":-32020`},
		{"another method", call, []string{version, Modern, method, "tools/list", name, "region", region, "north"}, 400, `"code":-32020`},
		{"another name", call, []string{version, Modern, method, "tools/call", name, "echo", region, "north"}, 400, `"code":-32020`},
		{"another parameter", call, []string{version, Modern, method, "tools/call", name, "region", region, "south"}, 400, `"code":-32020`},
		{"no _meta", legacyCall(5, "echo", "{}"), []string{version, Modern, method, "tools/call", name, "echo"}, 400, `"code":-32602`},
		{"unknown method", strings.Replace(discover, "server/discover", "tools/dance", 1), []string{version, Modern, method, "tools/dance"}, 404, `"code":-32601`},
		{"unknown version", strings.Replace(discover, "2026-07-28", "2027-01-01", 1), []string{version, "2027-01-01", method, "server/discover"}, 400, `"code":-32022`},
	} {
		status, session, body := post(t, client, url, c.body, c.header...)
		if status != c.status || !strings.Contains(body, c.want) || session != "" {
			t.Errorf("%s: %d %s (session %q), want %d with %s", c.what, status, body, session, c.status, c.want)
		}
	}
	if status, _, _ := do(t, client, http.MethodGet, url, "", version, Modern); status != http.StatusMethodNotAllowed {
		t.Errorf("GET in the modern era: %d, want 405", status)
	}
}

func TestAnswersWithoutAStream(t *testing.T) {
	url, client := serveOnHTTP(t, newServer(t, Config{NoSessions: true}))
	for body, want := range map[string]string{
		legacyCall(1, "log", `{"n":3}`): `"text":"3 lines"`,
		legacyCall(2, "roots", `{}`):    `accepts no event stream`,
		legacyCall(3, "sleep", `{}`):    `"text":"slept"`,
		initialize:                      `"protocolVersion":"2025-11-25"`,
	} {
		status, session, got := post(t, client, url+"/mcp", body, "Accept", "application/json")
		if status != 200 || session != "" || !strings.Contains(got, want) || !json.Valid([]byte(got)) {
			t.Errorf("%s: %d %s, want JSON with %s", body, status, got, want)
		}
	}
}

func TestStreamAnswersEverything(t *testing.T) {
	url, client := serveOnHTTP(t, newServer(t, Config{NoSessions: true, Stream: true}))
	status, _, body := post(t, client, url+"/mcp", ping)
	if want := "event: message\ndata: " + `{"jsonrpc":"2.0","id":3,"result":{}}` + "\n\n"; status != 200 || body != want {
		t.Errorf("%d %q, want %q", status, body, want)
	}
}
