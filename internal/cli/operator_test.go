package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/gateway"
	"github.com/weir-mcp/weir/internal/host/place"
	"github.com/weir-mcp/weir/internal/host/serverlog"
	"github.com/weir-mcp/weir/internal/web/api"
)

// talkative are servers that write to standard error: one runs, one ends at once.
const talkative = `
mcpServers:
  files: {command: sh, args: [-c, "echo files is here >&2; echo token ghp_0123456789abcdefghijABCDEFGHIJ456789 >&2; exec %FAKE%"]}
  broken: {command: sh, args: [-c, "echo broken by design >&2; exit 7"]}
  off: {command: nothing, disabled: true}
`

// operatorsKey returns the key of the tests' state folder.
func operatorsKey(t *testing.T) string {
	t.Helper()
	key, err := place.ReadKey(filepath.Join(filepath.Dir(weirBin), "state", "weir", place.OperatorKey))
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// TestRestartCommand: a server gets a new process and is listed again; the exit code tells of one that
// fails, and a wrong name of the nearest.
func TestRestartCommand(t *testing.T) {
	t.Parallel()
	s := serve(t, talkative)
	before := s.await("files", func(h gateway.Health) bool {
		return h.Upstreams["files"].Tools > 0 && h.Upstreams["broken"].Error != ""
	})
	weir(t, "restart", "files", "--config", s.config).want(t, 0, "✓ files  ", " tools", " ms")
	if now := s.health(); now.Upstreams["files"].Pid == before.Upstreams["files"].Pid || now.Upstreams["files"].Tools != before.Upstreams["files"].Tools {
		t.Errorf("before %+v, now %+v", before.Upstreams["files"], now.Upstreams["files"])
	}
	weir(t, "restart", "broken", "files", "--config", s.config).want(t, 1, "✓ files ", "✗ broken", "exit status 7")
	weir(t, "restart", "flies", "--config", s.config).want(t, 1, `there is no server "flies"; did you mean files?`)
	weir(t, "restart", "off", "--config", s.config).want(t, 1, "mcpServers.off.disabled")
	done := weir(t, "WEIR_URL="+s.url, "restart", "--all", "--json").want(t, 1)
	all := decode[[]api.Server](t, done.stdout)
	if len(all) != 2 || all[0].Name != "files" || all[0].Tools == 0 || all[1].Name != "broken" || all[1].Error == "" {
		t.Errorf("--all: %+v", all)
	}
	weir(t, "restart", "--all", "files", "--config", s.config).want(t, 2, "leave out the names")
	weir(t, "restart").want(t, 2, "an argument is missing")
	weir(t, "restart", "a", "--config", writeConfig(t, "weir.yaml", "mcpServers: {}\n")).want(t, 3, "no gateway runs with", "weir serve --config")
}

// TestLogsCommand: lines of servers, with the reason why a program ended and without secrets.
func TestLogsCommand(t *testing.T) {
	t.Parallel()
	s := serve(t, talkative)
	s.await("broken", func(h gateway.Health) bool {
		return h.Upstreams["broken"].Error != "" && h.Upstreams["files"].Tools > 0
	})
	weir(t, "restart", "files", "--config", s.config).want(t, 0)
	files := weir(t, "logs", "files", "--config", s.config).want(t, 0, "── starts", "files is here", "── ended: weir stopped it")
	if strings.Contains(files.stdout, "ghp_") || strings.Contains(files.stdout, "broken") || strings.Count(files.stdout, "files is here") != 2 {
		t.Errorf("the log of files:\n%s", files.stdout)
	}
	weir(t, "logs", "--config", s.config).want(t, 0, "broken  broken by design", "files   files is here", "── ended: exit status 7")
	last := weir(t, "logs", "files", "-n", "1", "--json", "--config", s.config).want(t, 0)
	if line := decode[serverlog.Line](t, last.stdout); line.Server != "files" || line.Text == "" || line.Time.IsZero() {
		t.Errorf("the last line: %s", last.stdout)
	}
	weir(t, "logs", "brokn", "--config", s.config).want(t, 4, "did you mean broken?")
}

// TestLogsFollow: lines come as they are written, and after a change of the configuration, too.
func TestLogsFollow(t *testing.T) {
	t.Parallel()
	s := serve(t, talkative)
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, weirBin, "logs", "files", "-f", "--json", "--config", s.config)
	cmd.Env = environment()
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(stdout)
	var seen uint64
	await := func(want string) {
		t.Helper()
		for lines.Scan() {
			var line serverlog.Line
			if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
				t.Fatal(err)
			}
			if line.Seq <= seen {
				t.Errorf("line %d after %d", line.Seq, seen)
			}
			seen = line.Seq
			if strings.Contains(line.Text, want) {
				return
			}
		}
		t.Fatalf("the stream ended before %q", want)
	}
	await("files is here")
	weir(t, "restart", "files", "--config", s.config).want(t, 0)
	await("weir stopped it")
	await("files is here")
	text, err := os.ReadFile(s.config)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(s.config, []byte("firewall: {threshold_chars: 4000}\n"+string(text)), 0o600); err != nil {
		t.Fatal(err)
	}
	logged(t, s, "the configuration has changed and is applied")
	weir(t, "restart", "files", "--config", s.config).want(t, 0)
	await("weir stopped it")
	cancel()
	_ = cmd.Wait()
}

// TestOperatorAlone: to be on this machine, to have a token, or to be a page of this machine is not
// enough; each refusal says what is needed.
func TestOperatorAlone(t *testing.T) {
	t.Parallel()
	free := serve(t, "mcpServers: {a: {command: %FAKE%}}\n")
	closed := serve(t, tokens("ann", "ops:, operator: true")+"mcpServers: {a: {command: %FAKE%}}\n")
	key := operatorsKey(t)
	bearer := func(token string) []string { return []string{"Authorization", "Bearer " + token} }
	for _, c := range []struct {
		name   string
		s      *server
		method string
		path   string
		header []string
		status int
		want   string
	}{
		{"no token", free, "GET", "servers", nil, 401, "operator.key"},
		{"no token where there are some", closed, "GET", "servers", nil, 401, "auth.tokens[].operator"},
		{"an unknown token", free, "GET", "servers", bearer("nonsense"), 401, "not the operator's key"},
		{"an empty token", free, "GET", "servers", bearer(""), 401, "operator.key"},
		{"an unknown token where there are some", closed, "GET", "servers", bearer("nonsense"), 401, "not known here"},
		{"a token without the role", closed, "GET", "servers", bearer("ann"), 403, `\"ann\" may not operate this gateway`},
		{"a token with the role", closed, "GET", "servers", bearer("ops"), 200, `"name":"a"`},
		{"the key", free, "GET", "servers", bearer(key), 200, `"name":"a"`},
		{"the key where there are tokens", closed, "GET", "servers", bearer(key), 200, `"name":"a"`},
		{"a page of another server here", free, "GET", "servers", append(bearer(key), "Origin", "http://127.0.0.1:1"), 403, "only the gateway's own pages"},
		{"a page without a name", free, "GET", "servers", append(bearer(key), "Origin", "null"), 403, "origin"},
		{"a page of another site", free, "GET", "servers", append(bearer(key), "Sec-Fetch-Site", "same-site"), 403, "own pages"},
		{"its own page", free, "GET", "servers", append(bearer(key), "Origin", free.base, "Sec-Fetch-Site", "same-origin"), 200, `"name":"a"`},
		{"another name of the host", free, "GET", "servers", append(bearer(key), "Host", "evil.example"), 403, "Host"},
		{"a change by GET", free, "GET", "servers/a/restart", bearer(key), 405, "POST"},
		{"a form", free, "POST", "servers/a/restart", append(bearer(key), "Content-Type", "application/x-www-form-urlencoded"), 415, "application/json"},
		{"no path", free, "GET", "nothing", bearer(key), 404, "there is no /api/v1/nothing"},
		{"a bad number", free, "GET", "logs?lines=-1", bearer(key), 400, "lines=-1"},
	} {
		status, body := exchange(t, c.method, c.s.base+api.Path+c.path, "{}", c.header...)
		if status != c.status || !strings.Contains(body, c.want) {
			t.Errorf("%s: %d %s", c.name, status, body)
		}
	}
	for _, body := range []string{`{"x":1}`, `[]`, `{} {}`, `{`} {
		if status, answer := exchange(t, http.MethodPost, free.base+api.Path+"servers/a/restart", body, append(bearer(key), "Content-Type", "application/json")...); status != 400 {
			t.Errorf("%s: %d %s", body, status, answer)
		}
	}
	// The key opens the API and nothing else, and is not written anywhere.
	if status, body := exchange(t, http.MethodGet, closed.base+"/stats", "", bearer(key)...); status != 401 {
		t.Errorf("/stats with the key: %d %s", status, body)
	}
	for _, s := range []*server{free, closed} {
		if strings.Contains(s.stderr.String(), key) {
			t.Error("the log has the key")
		}
	}
}

// TestKeyStaysHere: the key goes to gateways that have announced themselves, and to no other address.
func TestKeyStaysHere(t *testing.T) {
	t.Parallel()
	serve(t, "mcpServers: {}\n")
	key := operatorsKey(t)
	asked := make(chan string, 10)
	stranger := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.Header.Get("Authorization")
		http.Error(w, "{}", http.StatusNotFound)
	}))
	t.Cleanup(stranger.Close)
	weir(t, "logs", "--url", stranger.URL+"/mcp").want(t, 3, "no weir gateway, or an older one")
	weir(t, "WEIR_TOKEN=mine", "restart", "a", "--url", stranger.URL+"/mcp").want(t, 1)
	for _, want := range []string{"", "Bearer mine"} {
		if got := <-asked; got != want || strings.Contains(got, key) {
			t.Errorf("it was shown %q, want %q", got, want)
		}
	}
}
