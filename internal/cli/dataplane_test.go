package cli

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// freeAddress is an address that nothing listens on now.
func freeAddress(t *testing.T) string {
	t.Helper()
	port, err := freePort()
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("127.0.0.1:%d", port)
}

func fetchRows(t *testing.T, url, body string, header ...string) (int, string) {
	t.Helper()
	return exchange(t, http.MethodPost, url, body, header...)
}

const secretToken = "the-token-of-ann"

var resourcePattern = regexp.MustCompile(`(http|ddi)://[^"\s\\]*`)

// TestTablesGoFromServerToServer is the whole way: alerts of one server, a chart
// of another, and the model reads a few columns.
func TestTablesGoFromServerToServer(t *testing.T) {
	t.Parallel()
	address := freeAddress(t)
	sum := sha256.Sum256([]byte(secretToken))
	path := writeConfig(t, "weir.yaml", `
listen: `+address+`
auth: {tokens: [{name: ann, sha256: `+hex.EncodeToString(sum[:])+`}]}
artifacts: {dir: spill, memory_bytes: 64KB}
mcpServers:
  weather: {command: "${weir:exe}", args: [demo, weather]}
  chart: {command: "${weir:exe}", args: [demo, chart, --allow, "`+address+`"]}
`)
	s := startWith(t, nil, path, "serve", "--config", path)
	at := []string{"--url", s.url, "--token", secretToken}
	run := func(args ...string) finished { t.Helper(); return weir(t, append(args, at...)...) }
	id := func(name string) string {
		for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
			for _, c := range decode[[]card](t, run("ls", "--tools", "--json").want(t, exitOK).stdout) {
				if strings.HasPrefix(c.ID, name+"#") {
					return c.ID
				}
			}
		}
		t.Fatalf("no tool %s", name)
		return ""
	}
	alerts, chart := id("weather:get_alerts"), id("chart:draw_chart")
	mapping := `{"event":"label","wind_kmh":"value"}`
	draw := func(resourceURL string) finished {
		args, err := json.Marshal(map[string]string{"abstract_data": `[{"_row_id":1,"event":"A"},{"_row_id":3,"event":"B"}]`, "resource_url": resourceURL, "column_mapping": mapping})
		if err != nil {
			t.Fatal(err)
		}
		return run("call", chart, "--json", string(args))
	}

	// Async: the chart server fetches from the gateway, which fetches from the weather server.
	answer := run("call", alerts, "--arg", "rows=5", "--columns", "event").want(t, exitOK, `"total_rows":5`).stdout
	resourceURL := resourcePattern.FindString(answer)
	if !strings.HasPrefix(resourceURL, "http://"+address+"/s2sp/data/") {
		t.Fatalf("%s", answer)
	}
	drawn := draw(resourceURL).want(t, exitOK, "for 2 rows: ", "image/svg+xml").stdout
	draw(resourceURL).want(t, exitTool, "unknown or expired resource")
	// Sync: the same chart, and nobody fetches.
	answer = run("call", alerts, "--arg", "rows=5", "--columns", "event", "--mode", "sync").want(t, exitOK, `"abstract":[`).stdout
	if strings.Contains(answer, "headline\":") {
		t.Errorf("a body reached the agent: %s", answer)
	}
	if handle := resourcePattern.FindString(answer); !strings.HasPrefix(handle, "ddi://") {
		t.Errorf("%s", answer)
	} else if got := draw(handle).want(t, exitOK).stdout; got != drawn {
		t.Errorf("sync drew %s, async %s", got, drawn)
	}
	// A large result is a table by itself; 150 rows are more than the memory they may take.
	kept := run("call", alerts, "--arg", "rows=150").want(t, exitOK, "table: 150 rows × 31 columns").stdout
	handle := handlePattern.FindString(kept)
	run("call", chart, "--json", `{"abstract_data":{"$table":"`+handle+`","row_ids":[0,1],"columns":["event","wind_kmh"]},"column_mapping":`+string(mustQuote(t, mapping))+`}`).want(t, exitOK, "for 2 rows: ")
	run("view", handle, "table", "event", "offset=2", "limit=1").want(t, exitOK, "_row_id,event\n2,", "CSV, rows 2 to 3 of 150")
	run("view", handle, `{"type":"table","where":[{"column":"evnt","op":"eq","value":1}]}`).want(t, exitRefused, "VIEW_FAILED", "where[0].column")

	file := filepath.Join(t.TempDir(), "alerts.csv")
	run("table", handle, "-o", file, "--columns", "event,wind_kmh").want(t, exitOK, "150 rows written to")
	data, err := os.ReadFile(file)
	if err != nil || !strings.HasPrefix(string(data), "_row_id,event,wind_kmh\n0,") || strings.Count(string(data), "\n") != 151 {
		t.Errorf("%.200s, %v", data, err)
	}
	run("table", handle, "-o", file).want(t, exitUsage, "--force")
	for _, name := range []string{"alerts.csv", "alerts.tsv", "alerts.json", "alerts.ndjson", "alerts.jsonl", "alerts.ARROW", "alerts.parquet", "alerts"} {
		file := filepath.Join(filepath.Dir(file), name)
		run("table", handle, "-o", file, "--force", "--columns", "event,wind_kmh").want(t, exitOK, "150 rows written to "+file)
	}
	for name, begins := range map[string]string{"alerts.tsv": "_row_id\tevent\twind_kmh\n0\t", "alerts.json": `[{"_row_id":0,"event":`, "alerts.ndjson": `{"_row_id":0,"event":`, "alerts.ARROW": "\xff\xff\xff\xff", "alerts.parquet": "PAR1", "alerts": "_row_id,event"} {
		if data, err := os.ReadFile(filepath.Join(filepath.Dir(file), name)); err != nil || !strings.HasPrefix(string(data), begins) {
			t.Errorf("%s: %.60q, %v", name, data, err)
		}
	}
	for _, name := range []string{"alerts.xlsx", "alerts.csv.gz"} {
		run("table", handle, "-o", filepath.Join(filepath.Dir(file), name)).want(t, exitUsage, filepath.Ext(name), ".csv, .tsv, .json, .ndjson, .arrow, .parquet")
		if _, err := os.Lstat(filepath.Join(filepath.Dir(file), name)); err == nil {
			t.Errorf("%s was made", name)
		}
	}
	run("view", handle, "table", "event", "wind_kmh", "limit=1").want(t, exitOK, "_row_id,event,wind_kmh\n0,")
	if out := run("table", handle, "--format", "json", "--rows", "7", "--columns", "language").want(t, exitOK).stdout; out != `[{"_row_id":7,"language":"en-US"}]`+"\n" {
		t.Errorf("%s", out)
	}
	run("table", handle, "--columns", "event,evnt").want(t, exitUsage, `no column "evnt"; there are id, event`)
	if out := run("table", handle, "--columns", "event,language", "--rows", "99999").want(t, exitOK).stdout; out != "_row_id,event,language\n" {
		t.Errorf("no rows as CSV: %q, want the columns", out)
	}
	run("table", handle, "--config", "weir.yaml").want(t, exitUsage, "--config")
	run("table", handle, "--format", "ndjson", "--rows", "7,8").want(t, exitOK, `{"_row_id":7,`, "\n{\"_row_id\":8,")
	if out := run("table", handle, "--format", "arrow").want(t, exitOK).stdout; !strings.HasPrefix(out, "\xff\xff\xff\xff") {
		t.Errorf("no Arrow stream: %.20q", out)
	}
	resourceURL = resourcePattern.FindString(run("call", alerts, "--arg", "rows=5", "--columns", "event").want(t, exitOK).stdout)
	run("table", resourceURL[strings.LastIndex(resourceURL, "/")+1:]).want(t, exitOK, "_row_id,id,event,")
	run("table", resourceURL).want(t, exitRefused, "unknown or expired resource")
	run("table", "art_nothing").want(t, exitRefused, "no artifact has the handle")
	run("table", handle, "--format", "xls").want(t, exitUsage, "csv, tsv, json, ndjson, arrow")
	run("table", handle, "--rows", "x").want(t, exitUsage, "no _row_id")
	run("table", "ddi://x").want(t, exitUsage, "ddi://")

	// The token is all that the data plane asks for, and offers are for principals.
	if code, body := get(t, s.base+"/s2sp/health"); code != http.StatusOK || body != `{"status":"ok"}` {
		t.Errorf("health: %d %s", code, body)
	}
	if code, body := fetchRows(t, s.base+"/s2sp/data/nothing", "{}"); code != http.StatusNotFound || body != `{"error":"Unknown or expired resource"}` {
		t.Errorf("%d %s", code, body)
	}
	if code, _ := fetchRows(t, s.base+"/s2sp/offer/"+handle, ""); code != http.StatusUnauthorized {
		t.Errorf("an offer without a bearer token: %d", code)
	}
	resourceURL = resourcePattern.FindString(run("call", alerts, "--arg", "rows=5", "--columns", "event").want(t, exitOK).stdout)
	if code, _ := fetchRows(t, resourceURL, "{}", "Host", "evil.example"); code != http.StatusForbidden {
		t.Errorf("under another name: %d", code)
	}
	if code, _ := fetchRows(t, resourceURL, "{"); code != http.StatusBadRequest {
		t.Errorf("a bad request: %d", code)
	}
	if code, _ := fetchRows(t, resourceURL, `{"row_ids":[4]}`); code != http.StatusOK {
		t.Errorf("%d", code)
	}

	// What a model makes up leads nowhere.
	for _, bad := range []string{
		"http://169.254.169.254/s2sp/data/x", "http://[::ffff:169.254.169.254]/s2sp/data/x", "http://127.0.0.1:1/s2sp/data/x", "http://ann@" + address + "/s2sp/data/x",
		"http://localtest.me/s2sp/data/x", "file:///etc/passwd", "http://" + address + "/mcp",
	} {
		draw(bad).want(t, exitTool, "resource_url refused")
		run("call", chart, "--json", `{"abstract_data":{"$table":"`+bad+`"}}`).want(t, exitUsage, "resource_url refused")
	}
}

func mustQuote(t *testing.T, s string) []byte {
	t.Helper()
	out, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestPublicURL makes resource_urls that others can use.
func TestPublicURL(t *testing.T) {
	t.Parallel()
	s := serve(t, `
public_url: http://localhost:4711
mcpServers:
  inventory: {command: "${weir:exe}", args: [demo, inventory, --listen, "127.0.0.1:${weir:port}"], url: "http://127.0.0.1:${weir:port}/mcp"}
`)
	out := weir(t, "call", s.tool("inventory:list_products"), "--columns", "sku", "--url", s.url).want(t, exitOK).stdout
	url := resourcePattern.FindString(out)
	token, ok := strings.CutPrefix(url, "http://localhost:4711/s2sp/data/")
	if !ok {
		t.Fatalf("%s", out)
	}
	if code, body := fetchRows(t, s.base+"/s2sp/data/"+token, `{"row_ids":[0]}`); code != http.StatusOK || !strings.HasPrefix(body, `{"body":[{"_row_id":0,`) {
		t.Errorf("%d %s", code, body)
	}
}

// TestStdioDataPlane reads a table of a gateway that a client started as a
// command: it listens on loopback from its first table on.
func TestStdioDataPlane(t *testing.T) {
	t.Parallel()
	path := writeConfig(t, "weir.yaml", `
mcpServers:
  weather: {command: "${weir:exe}", args: [demo, weather], required: true}
`)
	cmd := exec.Command(weirBin, "serve", "--stdio", "--config", path)
	cmd.Env = environment()
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	ask := func(message string) string {
		t.Helper()
		if _, err := fmt.Fprintln(in, message); err != nil {
			t.Fatal(err)
		}
		for lines.Scan() {
			if strings.Contains(lines.Text(), `"id":`) {
				return lines.Text()
			}
		}
		t.Fatalf("no answer to %s: %v", message, lines.Err())
		return ""
	}
	ask(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`)
	_, _ = fmt.Fprintln(in, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	id := regexp.MustCompile(`weather:list_stations#[0-9a-f]+`).FindString(ask(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"tool_browse","arguments":{"path":"/weather"}}}`))
	answer := ask(`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"tool_execute","arguments":{"tool_id":"` + id + `","args":{"area":"CA"},"abstract_domains":"id"}}}`)
	url := resourcePattern.FindString(answer)
	if !strings.HasPrefix(url, "http://127.0.0.1:") {
		t.Fatalf("%s", answer)
	}
	if code, body := fetchRows(t, url, `{"row_ids":[0]}`); code != http.StatusOK || !strings.HasPrefix(body, `{"body":[{"_row_id":0,`) {
		t.Errorf("%d %s", code, body)
	}
	if err := in.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, out); err != nil {
		t.Error(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	if _, err := net.DialTimeout("tcp", strings.TrimPrefix(strings.SplitN(url, "/s2sp", 2)[0], "http://"), time.Second); err == nil {
		t.Error("it still listens")
	}
}

func TestBar(t *testing.T) {
	for _, tt := range []struct {
		have, total int64
		width       int
		want        string
	}{
		{512, 1024, 60, "█████████████░░░░░░░░░░░░░  50%  512 B of 1.0 KB  512 B/s"},
		{2048, -1, 60, "2.0 KB  2.0 KB/s"},
		{2048, 1024, 20, "██████████ 200%  2.0 KB of 1.0 KB  2.0 KB/s"},
	} {
		b := &bar{have: tt.have, total: tt.total}
		if got := b.text(tt.width, time.Second); got != tt.want {
			t.Errorf("%+v: %q", tt, got)
		}
	}
}

// TestTokensOfTables keeps the figures of docs/s2sp.md with the program that
// measures them.
func TestTokensOfTables(t *testing.T) {
	t.Parallel()
	address := freeAddress(t)
	path := writeConfig(t, "weir.yaml", `
listen: `+address+`
mcpServers:
  weather: {command: "${weir:exe}", args: [demo, weather], required: true}
  chart: {command: "${weir:exe}", args: [demo, chart, --allow, "`+address+`"], required: true}
`)
	s := start(t, path, "serve", "--config", path)
	cmd := exec.CommandContext(t.Context(), "go", "run", "./examples/s2sp/tokens", "--url", s.url)
	cmd.Dir = "../.."
	measured, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	const name = "../../docs/s2sp.md"
	doc, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(doc), "<!-- tokens -->\n")
	_, after, ok2 := strings.Cut(rest, "<!-- end -->")
	if !ok || !ok2 {
		t.Fatal("docs/s2sp.md has no part for the tokens")
	}
	text := before + "<!-- tokens -->\n" + string(measured) + "<!-- end -->" + after
	switch {
	case text == string(doc):
	case *update:
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("the tokens of docs/s2sp.md are others now: run go test ./internal/cli -run TestTokensOfTables -update\n%s", measured)
	}
}

// TestBodiesAtPassthrough keeps bodies from agents at /mcps/NAME/mcp, where the
// configuration asks for it.
func TestBodiesAtPassthrough(t *testing.T) {
	t.Parallel()
	s := serve(t, `
mcpServers:
  weather: {command: "${weir:exe}", args: [demo, weather], required: true, tables: {dispatch: true}}
  chart: {command: "${weir:exe}", args: [demo, chart], required: true, tables: {dispatch: true}}
  plain: {command: "${weir:exe}", args: [demo, weather], required: true}
`)
	client := httpClient(t)
	call := func(server, tool string, args map[string]any) string {
		t.Helper()
		code, body, err := post(t.Context(), client, s.base+"/mcps/"+server+"/mcp", tool, modernCall(1, tool, args))
		if err != nil || code != http.StatusOK {
			t.Fatalf("%s: %d %s %v", server, code, body, err)
		}
		return body
	}
	ask := map[string]any{"rows": 2, "abstract_domains": "event", "mode": "sync"}
	if answer := call("plain", "get_alerts", ask); !strings.Contains(answer, `"body":[`) || strings.Contains(answer, "ddi://") {
		t.Errorf("%s", answer)
	}
	answer := call("weather", "get_alerts", ask)
	handle := resourcePattern.FindString(answer)
	if strings.Contains(answer, `"body":[`) || strings.Contains(answer, `\"body\":[`) || !strings.HasPrefix(handle, "ddi://") {
		t.Fatalf("%s", answer)
	}
	draw := map[string]any{"abstract_data": `[{"_row_id":1,"event":"A"}]`, "resource_url": handle, "column_mapping": `{"event":"label","wind_kmh":"value"}`}
	if answer := call("chart", "draw_chart", draw); !strings.Contains(answer, "mean value by label for 1 rows") {
		t.Errorf("%s", answer)
	}
	if code, body, err := post(t.Context(), client, s.base+"/mcps/chart/mcp", "draw_chart", modernCall(2, "draw_chart", draw)); err != nil || !strings.Contains(body, "works once") {
		t.Errorf("used twice: %d %s %v", code, body, err)
	}
}
