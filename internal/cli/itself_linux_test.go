package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/gateway"
)

// processesIn are the command lines of the processes whose working folder is dir.
func processesIn(t *testing.T, dir string) []string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		t.Fatal(err)
	}
	all, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, p := range all {
		if _, err := strconv.Atoi(p.Name()); err != nil {
			continue
		}
		if cwd, err := os.Readlink("/proc/" + p.Name() + "/cwd"); err != nil || cwd != dir {
			continue // it may have ended
		}
		line, _ := os.ReadFile("/proc/" + p.Name() + "/cmdline")
		found = append(found, strings.ReplaceAll(string(line), "\x00", " "))
	}
	return found
}

// script writes a program into a folder.
func script(t *testing.T, path, text string) string {
	t.Helper()
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

// asMCP writes a .mcp.json with some entries.
func asMCP(t *testing.T, dir string, entries map[string]any) string {
	t.Helper()
	text, err := json.Marshal(map[string]any{"mcpServers": entries})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, ".mcp.json")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// entriesOfWeir are entries of a .mcp.json that are weir with this very file, by every
// way that starts it.
func entriesOfWeir(t *testing.T, dir string) map[string]any {
	t.Helper()
	bin := filepath.Join(dir, "bin")
	if err := os.Mkdir(bin, 0o700); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(bin, "weir")
	if err := os.Symlink(weirBin, link); err != nil {
		t.Fatal(err)
	}
	entry := func(command string, args ...string) map[string]any {
		return map[string]any{"command": command, "args": args}
	}
	onPath := entry("weir", "serve", "--stdio")
	onPath["env"] = map[string]string{"PATH": bin}
	return map[string]any{
		"absolute": entry(weirBin, "serve", "--stdio"),
		"named":    entry(weirBin, "serve", "--config", filepath.Join(dir, "bin", "..", ".mcp.json"), "--stdio", "--mode=proxy"),
		"link":     entry(link, "serve", "--stdio", "--config=.mcp.json"),
		"path":     onPath,
		"npx":      entry(script(t, filepath.Join(bin, "npx"), `shift 2; exec `+weirBin+` "$@"`), "-y", "weir-mcp@latest", "serve", "--stdio"),
		"gorun":    entry("go", "run", "github.com/weir-mcp/weir/cmd/weir@latest", "serve", "--stdio"),
		// What no look at the entry finds.
		"shell":   entry("sh", "-c", "exec "+weirBin+" serve --stdio"),
		"wrapped": entry(script(t, filepath.Join(bin, "run"), weirBin+` "$@"; echo exit status $? >&2; exit 1`), "serve", "--stdio"),
		"http":    map[string]any{"command": "sh", "args": []string{"-c", "exec " + weirBin + " serve --listen 127.0.0.1:1"}, "url": "http://127.0.0.1:1/mcp"},
	}
}

// TestWeirDoesNotStartItself: entries of a file that start weir with this file are left
// out, with one sentence each and as no failure, however they do it; no process starts
// another. A weir with another configuration is a server like any other.
func TestWeirDoesNotStartItself(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	own := entriesOfWeir(t, dir)
	entries := map[string]any{"time": map[string]any{"command": fakeBin, "args": []string{"-name", "time"}}}
	for name, entry := range own {
		entries[name] = entry
	}
	other := writeConfig(t, "weir.yaml", "mcpServers: {inner: {command: \"%FAKE%\"}, back: {command: sh, args: [-c, \"exec "+weirBin+" serve --stdio --config "+filepath.Join(dir, ".mcp.json")+"\"]}}\n")
	entries["other"] = map[string]any{"command": weirBin, "args": []string{"serve", "--stdio", "--config", other}}
	path := asMCP(t, dir, entries)

	// What an entry says is told before anything runs.
	check := weir(t, "@"+dir, "config", "check").want(t, exitOK, "5 servers: http, other, shell, time, wrapped")
	listed := decode[struct {
		OK      bool
		LeftOut []problemJSON `json:"left_out"`
	}](t, weir(t, "@"+dir, "config", "check", "--json").want(t, exitOK).stdout)
	if !listed.OK || len(listed.LeftOut) != 6 || listed.LeftOut[0].Key != "mcpServers.absolute" {
		t.Errorf("%+v", listed)
	}
	for name := range own {
		seen := !strings.Contains("shell wrapped http", name)
		if found := strings.Contains(check.stderr, "mcpServers."+name+" is left out"); found != seen {
			t.Errorf("config check says of %s that it is left out: %t", name, found)
		}
	}

	s := start(t, path, "serve", "--config", path, "--listen", "127.0.0.1:0")
	h := s.await("all is settled", func(h gateway.Health) bool {
		for name := range own {
			if h.Upstreams[name].State != "left_out" {
				return false
			}
		}
		return h.Upstreams["time"].Tools > 0 && h.Upstreams["other"].Tools > 0
	})
	if h.Status != gateway.StatusOK {
		t.Errorf("status %s", h.Status)
	}
	log := s.stderr.String()
	for name := range own {
		u := h.Upstreams[name]
		if u.Error != "" || !strings.HasPrefix(u.Note, "mcpServers."+name+" is left out: ") || !strings.Contains(u.Note, "weir does not") {
			t.Errorf("%s: %+v", name, u)
		}
		if n := strings.Count(log, "mcpServers."+name+" is left out"); n != 1 {
			t.Errorf("%s is told %d times", name, n)
		}
	}
	if strings.Contains(log, "level=WARN") || strings.Contains(log, "level=ERROR") {
		t.Errorf("there is something to worry about: %s", log)
	}
	weir(t, "ls", "--url", s.url).want(t, exitOK, "left_out", "time")
	// weir, time, and other with its own server.
	for range 10 {
		if found := processesIn(t, dir); len(found) > 4 {
			t.Fatalf("%d processes: %q", len(found), found)
		}
		time.Sleep(100 * time.Millisecond)
	}
	weir(t, "search", "--url", s.url, "returns its text").want(t, exitOK, "time:echo")
}

// TestStdioWeirDoesNotStartItself is the same for a client that starts weir as a
// command, which is how the entry gets into the file.
func TestStdioWeirDoesNotStartItself(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	entries := entriesOfWeir(t, dir)
	entries["time"] = map[string]any{"command": fakeBin, "args": []string{"-name", "time"}}
	weir(t, "trust", "--yes", asMCP(t, dir, entries)).want(t, exitOK)
	p := startProcess(t, dir, "", "serve", "--stdio")
	fmt.Fprintln(p.in, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`)
	awaitText(t, p.out.String, `"id":1,"result"`)
	fmt.Fprintln(p.in, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	fmt.Fprintln(p.in, `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"tool_browse","arguments":{"query":"returns its text"}}}`)
	awaitText(t, p.out.String, "time:echo")
	awaitText(t, p.out.String, "mcpServers.wrapped is left out")
	awaitText(t, p.out.String, "mcpServers.shell is left out")
	for range 10 {
		if found := processesIn(t, dir); len(found) > 2 {
			t.Fatalf("%d processes: %q", len(found), found)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// TestComputerDoesNotStartItself: a Computer that offers the servers of the file that
// also names weir does not start all of them twice.
func TestComputerDoesNotStartItself(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := asMCP(t, dir, map[string]any{
		"weir": map[string]any{"command": weirBin, "args": []string{"serve", "--stdio"}},
		"time": map[string]any{"command": fakeBin, "args": []string{"-name", "time"}},
	})
	s := serve(t, "mcpServers: {}\nhub: {}\n")
	p := startComputer(t, dir, "", "--hub", s.base, "--name", "desk", "--config", path)
	s.await("its server is an upstream", func(h gateway.Health) bool { return h.Upstreams["desk-time"].Tools > 0 })
	awaitText(t, p.out.String, "mcpServers.weir is left out")
	for range 5 {
		if found := processesIn(t, dir); len(found) > 2 {
			t.Fatalf("%d processes: %q", len(found), found)
		}
		time.Sleep(100 * time.Millisecond)
	}
}
