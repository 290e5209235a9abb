package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/gateway"
)

// faultyFile has a server that runs, one that needs a variable that is not set, and
// a disabled one.
const faultyFile = `{"mcpServers": {
  "fine": {"command": "%FAKE%"},
  "needskey": {"command": "%FAKE%", "env": {"K": "${WEIRTEST_NOT_SET}"}},
  "off": {"command": "${WEIRTEST_NOT_SET}", "disabled": true}
}}`

// TestFaultyServerFailsAlone: a gateway runs without the server whose entry is
// wrong, which is listed as failed with the sentence that says what to do.
func TestFaultyServerFailsAlone(t *testing.T) {
	t.Parallel()
	path := writeConfig(t, ".mcp.json", faultyFile)
	weir(t, "serve", "--strict", "--config", path).want(t, exitUsage, "error: ", ":3:", "WEIRTEST_NOT_SET is not set")

	s := start(t, path, "serve", "--config", path, "--listen", "127.0.0.1:0")
	h := s.await("fine is listed", func(h gateway.Health) bool { return h.Upstreams["fine"].Tools > 0 })
	const sentence = "mcpServers.needskey.env.K: the environment variable WEIRTEST_NOT_SET is not set; set it"
	if u := h.Upstreams["needskey"]; u.State != "failed" || !strings.HasPrefix(u.Error, ".mcp.json:3:") || !strings.Contains(u.Error, sentence) || h.Status != gateway.StatusDegraded {
		t.Errorf("needskey is %+v in a gateway that is %s", u, h.Status)
	}
	if h.Upstreams["off"].State != "disabled" {
		t.Errorf("off is %+v", h.Upstreams["off"])
	}
	weir(t, "ls", "--url", s.url).want(t, exitOK, sentence)
	weir(t, "call", "needskey:echo", "--url", s.url).want(t, exitUnavailable, sentence)
	weir(t, "browse", "/needskey", "--url", s.url).want(t, exitUnavailable, sentence)
	const missed = "not searched: needskey (the environment variable WEIRTEST_NOT_SET is not set)"
	for _, args := range [][]string{{"search", "no such thing"}, {"search", "echo"}, {"browse"}, {"ls", "--tools"}} {
		if f := weir(t, append(args, "--url", s.url)...).want(t, exitOK); !strings.HasSuffix(f.stderr, missed+"\n") || strings.Contains(f.stdout, missed) {
			t.Errorf("%q: stderr %q", args, f.stderr)
		}
	}
	if code, body := exchange(t, "POST", s.base+"/mcps/needskey/mcp", `{"jsonrpc":"2.0","id":1,"method":"ping"}`, "Content-Type", "application/json"); code < 500 || !strings.Contains(body, sentence) {
		t.Errorf("/mcps/needskey/mcp: %d %s", code, body)
	}
	if _, body := get(t, s.base+"/status/data"); !strings.Contains(body, sentence) {
		t.Errorf("/status/data has no reason: %s", body)
	}
	if log := s.stderr.String(); !strings.Contains(log, "warning: ") || !strings.Contains(log, `the server "needskey" is not started`) {
		t.Errorf("the log does not say it: %s", log)
	}
}

// TestReloadKeepsRunningServer: an entry that becomes wrong while weir runs leaves
// its server as it was; one that is added wrong fails alone.
func TestReloadKeepsRunningServer(t *testing.T) {
	t.Parallel()
	s := serve(t, "mcpServers:\n  a: {command: '%FAKE%'}\n")
	before := s.await("a is listed", func(h gateway.Health) bool { return h.Upstreams["a"].Tools > 0 })
	text := strings.ReplaceAll("mcpServers:\n  a: {command: '%FAKE%', env: {K: '${WEIRTEST_NOT_SET}'}}\n  b: {comand: x}\n  c: {command: '%FAKE%'}\n", "%FAKE%", fakeBin)
	if err := os.WriteFile(s.config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	after := s.await("c is listed", func(h gateway.Health) bool { return h.Upstreams["c"].Tools > 0 })
	if a := after.Upstreams["a"]; a.Pid != before.Upstreams["a"].Pid || a.State != "ready" {
		t.Errorf("a is %+v, was %+v", a, before.Upstreams["a"])
	}
	if b := after.Upstreams["b"]; b.State != "failed" || !strings.Contains(b.Error, `did you mean`) && !strings.Contains(b.Error, "neither command nor url") {
		t.Errorf("b is %+v", b)
	}
	for end := time.Now().Add(limit); !strings.Contains(s.stderr.String(), "is applied"); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the change was not applied")
		}
	}
	for _, want := range []string{`level=WARN`, `keeps running as it was configured before`, `is not started, the others are`, `faulty=[b]`} {
		if !strings.Contains(s.stderr.String(), want) {
			t.Errorf("no %q in the log", want)
		}
	}
}

// TestConfigCheckOfOneServer: what is wrong with one server is a warning, and with
// --strict a problem; a program that is not there is a warning.
func TestConfigCheckOfOneServer(t *testing.T) {
	t.Parallel()
	path := writeConfig(t, ".mcp.json", faultyFile)
	weir(t, "config", "check", path).want(t, exitOK, "WEIRTEST_NOT_SET is not set", ": ok, 1 server: fine; 1 not started: needskey")
	weir(t, "config", "check", "--strict", path).want(t, exitUsage, "error: ", "WEIRTEST_NOT_SET is not set")
	f := weir(t, "config", "check", "--json", path).want(t, exitOK)
	if got := decode[struct {
		OK     bool
		Faulty []string
	}](t, f.stdout); !got.OK || len(got.Faulty) != 1 || got.Faulty[0] != "needskey" {
		t.Errorf("%+v", got)
	}

	none := writeConfig(t, "weir.yaml", "mcpServers:\n  nocmd: {command: weirtest-no-such-program}\n  gone: {command: /weirtest/gone}\n  nodir: {command: sh, cwd: gone}\n  own: {command: tool, env: {PATH: '%DIR%'}}\n")
	dir := filepath.Dir(none)
	text, err := os.ReadFile(none)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(none, []byte(strings.ReplaceAll(string(text), "%DIR%", dir)), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "tool"), []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	f = weir(t, "config", "check", none).want(t, exitOK,
		`weir.yaml:2:11: mcpServers.nocmd.command: "weirtest-no-such-program" cannot be started: not found in PATH; install it`,
		`mcpServers.gone.command: "/weirtest/gone" cannot be started: there is no such file`,
		`mcpServers.nodir.command: "sh" cannot be started: its working directory`)
	if strings.Contains(f.stderr, "own") {
		t.Errorf("a program in the PATH of its entry is not found: %s", f.stderr)
	}
}
