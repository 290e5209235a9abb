package cli

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/gateway"
)

// piped runs a command with something on standard input.
func piped(t *testing.T, stdin string, env []string, args ...string) finished {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), weirBin, args...)
	cmd.Env, cmd.Stdin = environment(env...), strings.NewReader(stdin)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	_ = cmd.Run() // the exit code tells
	return endOf(cmd, stdout.String(), stderr.String())
}

// secretHome is the environment of a user who has no keyring.
func secretHome(t *testing.T) (env []string, file string) {
	t.Helper()
	dir := t.TempDir()
	return []string{"XDG_CONFIG_HOME=" + dir, "DBUS_SESSION_BUS_ADDRESS=disabled:"}, filepath.Join(dir, "weir", "secrets.yaml")
}

func TestSecretCommands(t *testing.T) {
	t.Parallel()
	const value = "ghp_0123456789abcdef"
	env, file := secretHome(t)
	run := func(stdin string, args ...string) finished {
		t.Helper()
		return piped(t, stdin, env, append([]string{"secret"}, args...)...)
	}
	run("", "ls").want(t, exitOK, "weir secret set NAME stores one")
	if f := run("", "ls", "--json"); f.stdout != "[]\n" {
		t.Errorf("no secrets are %q", f.stdout)
	}
	run(value+"\n", "set", "GITHUB_TOKEN", "--stdin", "--store", "file").want(t, exitOK, "GITHUB_TOKEN is stored in "+file+" (20 characters)", "${secret:GITHUB_TOKEN}")
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	if f := run("other\r\n", "set", "OTHER", "--stdin", "--json").want(t, exitOK); decode[map[string]string](t, f.stdout)["place"] != "file" {
		t.Errorf("%s", f.stdout)
	}
	data, err := os.ReadFile(file)
	if err != nil || !strings.Contains(string(data), "value: other\n") {
		t.Errorf("%q, %v", data, err)
	}
	for _, args := range [][]string{{"ls"}, {"ls", "--json"}} {
		if f := run("", args...).want(t, exitOK, "GITHUB_TOKEN", "OTHER", "file"); strings.Contains(f.stdout+f.stderr, value) {
			t.Errorf("%q shows the value: %s", args, f.stdout)
		}
	}
	if f := piped(t, "", env, "__complete", "secret", "rm", ""); !strings.Contains(f.stdout, "GITHUB_TOKEN\nOTHER\n") {
		t.Errorf("completion: %s", f.stdout)
	}
	run("", "set", "GITHUB_TOKEN").want(t, exitUsage, "no terminal", "--stdin")
	run("too short", "set", keyName, "--stdin").want(t, exitUsage, "seals the sign-ins", "another name")
	run("x", "set", "BAD-NAME", "--stdin").want(t, exitUsage, "letters, digits and _")
	run("x", "set", "A", "--stdin", "--store", "cloud").want(t, exitUsage, `not "cloud"`)
	run("", "set", "A", "--stdin").want(t, exitInternal, "is empty")
	run(strings.Repeat("x", 70000), "set", "A", "--stdin").want(t, exitInternal, "at most 65536")
	run("x", "set", "A", "--stdin", "--store", "keyring").want(t, exitInternal, "no keyring here")
	run("", "rm", "OTHER", "NONE").want(t, exitUsage, "removed OTHER", "no such secret: NONE")
	if f := run("", "rm", "GITHUB_TOKEN", "--json"); decode[map[string][]string](t, f.stdout)["removed"][0] != "GITHUB_TOKEN" {
		t.Errorf("%s", f.stdout)
	}
	if data, err = os.ReadFile(file); err != nil || strings.Contains(string(data), value) {
		t.Errorf("%q, %v", data, err)
	}
}

// TestSecretWhileRunning: a gateway names the command that stores a missing secret, starts the server
// once it is stored, and tells the value in no log, error, page or result.
func TestSecretWhileRunning(t *testing.T) {
	t.Parallel()
	env, _ := secretHome(t)
	g := gossip(t)
	const first, second = "tvly-letmein-0123456789", "tvly-opensesame-9876543210"
	file := writeConfig(t, "weir.yaml", `
expose_hydrate: true
artifacts: {redact: true}
mcpServers:
  gossip: {url: "`+g.URL+`/mcp?tavilyApiKey=${secret:TAVILY}"}
  fake: {command: "%FAKE%", env: {KEY: "${secret:TAVILY}"}}
`)
	const fix = "the secret TAVILY is not stored; store it with: weir secret set TAVILY"
	piped(t, "", env, "config", "check", file).want(t, exitOK, fix)
	s := startWith(t, env, file, "serve", "--config", file, "--listen", "127.0.0.1:0")
	if u := s.await("gossip has failed", func(h gateway.Health) bool { return h.Upstreams["gossip"].State == "failed" }).Upstreams["gossip"]; !strings.Contains(u.Error, fix) {
		t.Errorf("gossip is %+v", u)
	}
	for _, value := range []string{first, second} {
		piped(t, value, env, "secret", "set", "TAVILY", "--stdin").want(t, exitOK)
		s.await("both have their tools", func(h gateway.Health) bool {
			return h.Upstreams["gossip"].Tools > 0 && h.Upstreams["fake"].Tools > 0 && strings.Count(s.stderr.String(), "the configuration has changed and is applied") >= map[string]int{first: 1, second: 2}[value]
		})
	}
	told := map[string]string{}
	for _, page := range []string{"/healthz", "/status/data", "/catalog", "/console/api/overview"} {
		_, told[page] = get(t, s.base+page)
	}
	for _, args := range [][]string{{"ls", "--json"}, {"search", "key", "--json"}, {"call", s.tool("gossip:gossip")}, {"call", s.tool("fake:echo"), "--arg", "text=my key is " + second}} {
		f := weir(t, append(args, "--url", s.url)...)
		told[strings.Join(args[:2], " ")] = f.stdout + f.stderr
	}
	told["log"] = s.stderr.String()
	for where, text := range told {
		if strings.Contains(text, second) || where == "log" && strings.Contains(text, first) {
			t.Errorf("%s tells the secret: %s", where, text)
		}
	}
	if !strings.Contains(told["call "+s.tool("fake:echo")], "my key is [redacted]") {
		t.Errorf("the echo is %q", told["call "+s.tool("fake:echo")])
	}
	piped(t, "", env, "secret", "rm", "TAVILY").want(t, exitOK)
	s.await("the servers go on", func(h gateway.Health) bool {
		return strings.Contains(s.stderr.String(), fix) && h.Upstreams["fake"].State == "ready"
	})
}
