package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/gateway"
)

const oneFake = `
mcpServers:
  fake:
    command: %FAKE%
`

var handlePattern = regexp.MustCompile(`art_[a-z0-9]+`)

// TestShell uses a running gateway the way a person and a script do.
func TestShell(t *testing.T) {
	t.Parallel()
	s := serve(t, oneFake)
	echo := s.tool("fake:echo")
	at := []string{"--url", s.url}
	run := func(args ...string) finished { t.Helper(); return weir(t, append(args, at...)...) }

	run("ls").want(t, exitOK, "NAME", "fake", "ready", "stdio", "fakemcp 1")
	list := decode[[]gateway.UpstreamHealth](t, run("ls", "--json").want(t, exitOK).stdout)
	if len(list) != 1 || list[0].Name != "fake" || list[0].State != "ready" || list[0].Tools == 0 {
		t.Errorf("ls --json: %+v", list)
	}
	run("search", "return text", "-k", "2").want(t, exitOK, echo)
	if found := decode[[]card](t, run("search", "echo", "--json").want(t, exitOK).stdout); len(found) == 0 || found[0].ID != echo {
		t.Errorf("search --json: %+v", found)
	}
	run("search", "zzzqqqxxx").want(t, exitOK, "No tool matches")
	run("search", "echo", "-k", "51").want(t, exitUsage, "from 1 to 50")
	run("browse", "/").want(t, exitOK, "/fake")
	run("browse", "/fake").want(t, exitOK, echo)
	run("browse", "/nowhere").want(t, exitRefused, "PATH_NOT_FOUND")
	run("browse", "//").want(t, exitUsage, "PATH_INVALID")

	if out := run("call", echo, "--arg", "text=hello").want(t, exitOK); out.stdout != "hello\n" || out.stderr != "" {
		t.Errorf("call: %+v", out)
	}
	// 5 is a number until the schema says that text is a string.
	if out := run("call", echo, "--arg", "text=5").want(t, exitOK); out.stdout != "5\n" {
		t.Errorf("call with a text that looks like a number: %+v", out)
	}
	if out := run("call", echo, "--arg", "size=3").want(t, exitOK); len(strings.TrimSpace(out.stdout)) != 3 {
		t.Errorf("call with a number: %+v", out)
	}
	run("call", echo, "--json", `{"text":"from json"}`).want(t, exitOK, "from json")
	run("call", "--json", `{"text":"from json"}`, echo).want(t, exitOK, "from json")
	envelope := decode[struct {
		Status     string
		Provenance struct {
			ToolID string `json:"tool_id"`
		}
	}](t, run("call", echo, "--arg", "text=x", "--envelope").want(t, exitOK).stdout)
	if envelope.Status != "ok" || envelope.Provenance.ToolID != echo {
		t.Errorf("call --envelope: %+v", envelope)
	}
	run("call", echo, "--arg", "size=many").want(t, exitUsage, "ARGS_INVALID", "size")
	refused := run("call", echo, "--arg", "size=many", "-o", "json").want(t, exitUsage)
	if e := decode[gatewayError](t, refused.stdout); e.Code != "ARGS_INVALID" || e.Details == nil {
		t.Errorf("an error as JSON: %+v", refused)
	}
	run("call", "fake:ech#00000000").want(t, exitRefused, "HYDRATE_FAILED", echo)
	run("call", s.tool("fake:refuse"), "--arg", "message=no luck").want(t, exitTool, "no luck")
	run("call", echo, "extra").want(t, exitUsage, "one too many")
	run("call").want(t, exitUsage, "Usage")

	// A long result is kept, and viewed by another process.
	held := run("call", echo, "--arg", "size=5000").want(t, exitOK)
	handle := handlePattern.FindString(held.stdout)
	if handle == "" || len(held.stdout) > 3000 {
		t.Fatalf("a long result was not held back: %.300s", held.stdout)
	}
	if out := run("view", handle, "head", "10").want(t, exitOK); !strings.HasPrefix(out.stdout, "xxxxxxxxxx\n") {
		t.Errorf("view: %q", out.stdout)
	}
	if out := run("view", handle, `{"type":"head","chars":4}`).want(t, exitOK); !strings.HasPrefix(out.stdout, "xxxx\n") {
		t.Errorf("view with JSON: %q", out.stdout)
	}
	view := decode[struct{ Text string }](t, run("view", handle, "head", "7", "--json").want(t, exitOK).stdout)
	if view.Text != "xxxxxxx" {
		t.Errorf("view --json: %+v", view)
	}
	run("view", "art_nothing").want(t, exitRefused, "VIEW_FAILED")
	run("view", handle, "lines", "x").want(t, exitRefused, "VIEW_FAILED", "start")
}

// TestOwnGateway uses a configuration without a running gateway, and the gateway
// that runs with this folder's configuration when there is one.
func TestOwnGateway(t *testing.T) {
	t.Parallel()
	path := writeConfig(t, "weir.yaml", "listen: 127.0.0.1:1\n"+oneFake) // nothing listens on port 1
	weir(t, "ls", "--config", path).want(t, exitOK, "fake", "ready")
	cards := decode[[]card](t, weir(t, "search", "echo", "--json", "--config", path).want(t, exitOK).stdout)
	if len(cards) == 0 {
		t.Fatal("search found nothing")
	}
	echo := cards[0].ID
	weir(t, "call", echo, "--arg", "text=own", "--config", path).want(t, exitOK, "own\n")
	weir(t, "call", echo, "--arg", "size=5000", "--config", path).want(t, exitOK, "The handle ends with this command", "weir serve --config")
	weir(t, "view", "art_x", "--config", path).want(t, exitUsage, "handles end with the process")
	weir(t, "trust", "--yes", path).want(t, exitOK)
	weir(t, "@"+filepath.Dir(path), "ls", "--json").want(t, exitOK, `"fake"`)

	// The gateway of this folder runs: it is asked, and remembers.
	s := start(t, path, "serve", "--config", path, "--listen", "127.0.0.1:0")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	at := strings.TrimPrefix(s.base, "http://")
	if err := os.WriteFile(path, []byte(strings.Replace(string(text), "127.0.0.1:1", at, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	held := weir(t, "@"+filepath.Dir(path), "call", echo, "--arg", "size=5000").want(t, exitOK)
	if strings.Contains(held.stderr, "ends with this command") {
		t.Errorf("the running gateway was not asked: %s", held.stderr)
	}
	weir(t, "@"+filepath.Dir(path), "view", handlePattern.FindString(held.stdout), "head", "5").want(t, exitOK, "xxxxx")
	weir(t, "WEIR_URL="+s.url, "ls").want(t, exitOK, "fake")
}

func TestUnreachable(t *testing.T) {
	t.Parallel()
	weir(t, "ls", "--url", "http://127.0.0.1:1/mcp").want(t, exitUnavailable, "http://127.0.0.1:1/mcp", "weir serve")
	weir(t, "ls", "--url", "ftp://x").want(t, exitUsage, "no http or https URL")
	weir(t, "ls", "--url", "http://x", "--config", "y").want(t, exitUsage)
	weir(t, "serve").want(t, exitUsage, "weir.yaml")
	weir(t, "call", "a:b", "--config", "missing.yaml").want(t, exitUsage, "missing.yaml")
	weir(t, "nonsense").want(t, exitUsage, "nonsense")
	weir(t, "ls", "--nonsense").want(t, exitUsage, "--nonsense", "Usage")
}

func TestConfigCommands(t *testing.T) {
	t.Parallel()
	bad := writeConfig(t, "weir.yaml", "listn: 127.0.0.1:0\nmcpServers:\n  a:\n    comand: x\n  b:\n    url: nothing\n")
	out := weir(t, "config", "check", bad).want(t, exitUsage, bad+":1:1", "listn", "listen", bad+":4:5", "comand", bad+":6:5", "mcpServers.b.url")
	if out.stdout != "" {
		t.Errorf("problems on stdout: %s", out.stdout)
	}
	report := decode[struct {
		OK       bool
		Problems []problemJSON
	}](t, weir(t, "config", "check", "--json", bad).want(t, exitUsage).stdout)
	if report.OK || len(report.Problems) < 3 || report.Problems[0].Line != 1 {
		t.Errorf("problems as JSON: %+v", report)
	}
	weir(t, "serve", "--config", bad).want(t, exitUsage, bad+":4:5")
	weir(t, "ls", "--config", bad).want(t, exitUsage, bad+":4:5")
	good := writeConfig(t, ".mcp.json", `{"mcpServers":{"a":{"command":"x"}},"other":1}`)
	weir(t, "config", "check", good).want(t, exitOK, "ok, 1 server: a", "warning", "other")
	weir(t, "@"+filepath.Dir(good), "config", "check").want(t, exitOK, ".mcp.json: ok")
	weir(t, "config", "check").want(t, exitUsage, "weir.yaml")
	if schema := weir(t, "config", "schema").want(t, exitOK).stdout; !json.Valid([]byte(schema)) || !strings.Contains(schema, "mcpServers") {
		t.Errorf("schema: %.200s", schema)
	}
	open := writeConfig(t, "weir.yaml", "listen: 0.0.0.0:0\nmcpServers: {}\n")
	weir(t, "serve", "--config", open).want(t, exitUsage, "0.0.0.0", "auth.tokens")
	weir(t, "serve", "--config", good, "--mode", "nonsense").want(t, exitUsage, "gateway or proxy")
	weir(t, "serve", "--config", good, "--stdio", "--listen", "127.0.0.1:0").want(t, exitUsage, "--stdio")
}

// TestVersionFirst: package version is initialised before the packages that take long.
func TestVersionFirst(t *testing.T) {
	t.Parallel()
	trace := weir(t, "GODEBUG=inittrace=1", "--version").want(t, exitOK, "weir ").stderr
	first := strings.Index(trace, "weir/internal/version @")
	if first < 0 {
		t.Fatalf("internal/version was not initialised:\n%s", trace)
	}
	for _, later := range []string{"santhosh-tekuri/jsonschema", "net/http @", "protobuf/reflect"} {
		if at := strings.Index(trace, later); at < first {
			t.Errorf("%s was initialised before internal/version, or not at all:\n%s", later, trace)
		}
	}
}

func TestSmallCommands(t *testing.T) {
	t.Parallel()
	weir(t, "version").want(t, exitOK, "weir ")
	if v := decode[struct{ Version string }](t, weir(t, "version", "--json").want(t, exitOK).stdout); v.Version == "" {
		t.Error("no version in the JSON")
	}
	weir(t, "--version").want(t, exitOK, "weir ")
	if alone, more := weir(t, "--version"), weir(t, "--version", "--help", "x"); more.stdout != alone.stdout || more.code != alone.code {
		t.Errorf("--version with more arguments: %d %q, alone %d %q", more.code, more.stdout, alone.code, alone.stdout)
	}
	weir(t, "help").want(t, exitOK, "serve", "search", "call")
	if f := weir(t, "help", "exit-codes").want(t, exitOK, exitCodeText()); strings.Contains(f.stdout, "|") {
		t.Errorf("Markdown for people:\n%s", f.stdout)
	}
	weir(t, "help", "selectors").want(t, exitOK, "json_path")
	weir(t, "completion", "bash").want(t, exitOK, "weir")
	weir(t, "demo", "nonsense").want(t, exitUsage, "nonsense", "notes")
	weir(t, "bench", "search", "--data", "missing").want(t, exitUsage, "missing")
	weir(t, "bench", "search").want(t, exitUsage, "data")

	sets := t.TempDir()
	set := filepath.Join(sets, "small")
	if err := os.Mkdir(set, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"tools.jsonl": `{"id":"a","server":"s","name":"send_mail","description":"Send a mail."}` + "\n" + `{"id":"b","server":"s","name":"read_file","description":"Read a file."}` + "\n",
		"dev.jsonl":   `{"id":"1","query":"read a file","gold":["b"]}` + "\n",
	} {
		if err := os.WriteFile(filepath.Join(set, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	weir(t, "bench", "search", "--data", sets).want(t, exitOK, "small", "R@5")
	report := decode[struct {
		Sets []struct {
			Set string
			R1  float64
		}
	}](t, weir(t, "bench", "search", "--data", sets, "--json").want(t, exitOK).stdout)
	if len(report.Sets) != 1 || report.Sets[0].R1 != 1 {
		t.Errorf("bench search --json: %+v", report)
	}
}

// TestFaults starts a gateway in front of servers that misbehave: the good one
// works at once, and what is wrong with the others is said.
func TestFaults(t *testing.T) {
	t.Parallel()
	began := time.Now()
	s := serve(t, `
mcpServers:
  good: {command: %FAKE%}
  hang: {command: %FAKE%, args: [-init, hang]}
  dead: {command: %FAKE%, args: [-init, exit]}
  junk: {command: %FAKE%, args: [-init, junk]}
  missing: {command: /nonexistent/program}
  broken: {command: %FAKE%, args: [-broken]}
  many: {command: %FAKE%, args: [-bare, -tools, "3000", -pages, "30"]}
`)
	s.await("the good ones are ready, the dead ones failed", func(h gateway.Health) bool {
		return h.Upstreams["good"].State == "ready" && h.Upstreams["junk"].State == "ready" && h.Upstreams["broken"].State == "ready" &&
			h.Upstreams["many"].Tools == 3000 && h.Upstreams["dead"].Error != "" && h.Upstreams["missing"].Error != ""
	})
	out := weir(t, "search", "echo returns its text", "--json", "--url", s.url).want(t, exitOK)
	if took := time.Since(began); took > 15*time.Second {
		t.Errorf("a server that never answers delayed the others by %v", took)
	}
	var echo, crash string
	for _, c := range decode[[]card](t, out.stdout) {
		if strings.HasPrefix(c.ID, "good:echo#") {
			echo = c.ID
		}
	}
	if echo == "" {
		t.Fatalf("the good server's tool was not found: %s", out.stdout)
	}
	weir(t, "call", echo, "--arg", "text=works", "--url", s.url).want(t, exitOK, "works")
	weir(t, "ls", "--url", s.url).want(t, exitOK, "failed", "/nonexistent/program")
	if h := s.health(); h.Status != gateway.StatusDegraded {
		t.Errorf("status %q, want %q", h.Status, gateway.StatusDegraded)
	}

	// Killed in mid-call: said at once, and the next call works.
	crash = s.tool("good:crash")
	weir(t, "call", crash, "--url", s.url).want(t, exitUnavailable, "UPSTREAM_UNAVAILABLE", "good")
	weir(t, "call", echo, "--arg", "text=again", "--url", s.url).want(t, exitOK, "again")
	weir(t, "call", s.tool("many:tool_2999"), "--arg", "text=last", "--url", s.url).want(t, exitOK, "last")
}

// TestRequired: weir does not start without a server that is required.
func TestRequired(t *testing.T) {
	t.Parallel()
	path := writeConfig(t, "weir.yaml", "mcpServers:\n  dead: {command: %FAKE%, args: [-init, exit], required: true}\n")
	weir(t, "serve", "--config", path, "--listen", "127.0.0.1:0").want(t, exitUnavailable, `"dead"`, "required")
	weir(t, "ls", "--config", path).want(t, exitUnavailable, `"dead"`, "required")
}
