package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/gateway"
)

// clone is a folder with a configuration whose server, and the program of its secret, leave a trace
// when they run.
func clone(t *testing.T, name string) (dir, path string, ran func() bool) {
	t.Helper()
	trace := filepath.Join(t.TempDir(), "trace")
	path = writeConfig(t, name, `{"mcpServers": {"one": {"command": "sh", "args": ["-c", "touch `+trace+`; exec %FAKE%"],
		"env": {"KEY": "${NONE:-${exec:sh -c 'touch `+trace+`; echo key-of-one'}}"}}},
		"inputs": [{"id": "key", "type": "command", "command": "touch", "args": ["`+trace+`"]}]}`)
	return filepath.Dir(path), path, func() bool {
		_, err := os.Stat(trace)
		return err == nil
	}
}

// TestClonedFolderStartsNothing: no command runs a server, or the command of an input, of a file
// that lies in a folder before the person has agreed to exactly this file.
func TestClonedFolderStartsNothing(t *testing.T) {
	t.Parallel()
	for _, name := range []string{".mcp.json", "weir.json"} {
		env := "XDG_STATE_HOME=" + t.TempDir()
		dir, path, ran := clone(t, name)
		for _, args := range [][]string{
			{"ls"}, {"ls", "--tools"}, {"ls", "--hash"}, {"search", "echo"}, {"browse"}, {"show", "one:echo"}, {"call", "one:echo"}, {"view", "art_x"},
			{"serve", "--listen", "127.0.0.1:0"}, {"serve", "--stdio"},
		} {
			f := weir(t, append([]string{env, "@" + dir}, args...)...).want(t, exitUsage, "may have come with it", "weir trust "+path, "one: sh -c touch", "secret: ${exec:sh -c 'touch ")
			if ran() {
				t.Fatalf("weir %q ran a program of %s: %s", args, name, f.stderr)
			}
		}
		weir(t, env, "@"+dir, "stats").want(t, exitUnavailable, "no gateway runs")
		weir(t, env, "@"+dir, "config", "check").want(t, exitOK)
		weir(t, env, "@"+dir, "trust").want(t, exitUsage, "one: sh -c touch", "secret: ${exec:sh -c 'touch ", "weir trust --yes")
		if ran() {
			t.Fatal("a check ran a program")
		}

		weir(t, env, "@"+dir, "trust", "--yes").want(t, exitOK, "Agreed: "+path)
		weir(t, env, "@"+dir, "ls").want(t, exitOK, "one")
		if !ran() {
			t.Error("nothing was started after the agreement")
		}
		data, err := os.ReadFile(path)
		if err == nil {
			err = os.WriteFile(path, append(data, '\n'), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		weir(t, env, "@"+dir, "ls").want(t, exitUsage, "has changed since you agreed to it")
		weir(t, env, "@"+dir, "ls", "--config", name).want(t, exitOK, "one")
		weir(t, env, "@"+dir, "ls").want(t, exitUsage, "has changed")
		weir(t, env, "@"+dir, "trust", "--revoke").want(t, exitOK)
		weir(t, env, "@"+dir, "ls").want(t, exitUsage, "may have come with it")
		weir(t, env, "@"+dir, "trust", "--revoke").want(t, exitUsage, "you have not agreed")
	}
}

// TestClonedAddressGetsNoToken: the listen address of a cloned file gets no token.
func TestClonedAddressGetsNoToken(t *testing.T) {
	t.Parallel()
	s := serve(t, oneFake)
	path := writeConfig(t, "weir.yaml", "listen: "+strings.TrimPrefix(s.base, "http://")+"\n"+oneFake)
	for _, command := range []string{"ls", "stats"} {
		f := weir(t, "WEIR_TOKEN=secret", "@"+filepath.Dir(path), command)
		if f.code == exitOK || strings.Contains(f.stderr, s.base) {
			t.Errorf("%s: %d %s", command, f.code, f.stderr)
		}
	}
}

// TestOwnConfiguration: the person's own file serves every folder without one, and needs no
// agreement.
func TestOwnConfiguration(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	env := "XDG_CONFIG_HOME=" + home
	weir(t, env, "config", "check").want(t, exitUsage, filepath.Join(home, "weir", "weir.yaml"))
	path := filepath.Join(home, "weir", "weir.yaml")
	data, err := os.ReadFile(writeConfig(t, "weir.yaml", oneFake))
	if err == nil {
		err = os.Mkdir(filepath.Dir(path), 0o700)
	}
	if err == nil {
		err = os.WriteFile(path, data, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	weir(t, env, "ls").want(t, exitOK, "fake", "starting 1 server of "+path)
	weir(t, env, "@"+filepath.Dir(path), "ls").want(t, exitOK, "fake")
	dir, _, _ := clone(t, ".mcp.json")
	weir(t, env, "@"+dir, "ls").want(t, exitUsage, "weir trust")
	s := startWith(t, []string{env}, "", "serve", "--listen", "127.0.0.1:0")
	f := weir(t, env, "ls", "--json").want(t, exitOK, `"fake"`)
	if s.url == "" || strings.Contains(f.stderr, "starting") {
		t.Errorf("the running gateway was not asked: %s", f.stderr)
	}
}

// TestChangeWaitsForAgreement: a gateway of a folder's file does not apply a change, as git pull
// brings it, before the person has agreed; then it does so at once.
func TestChangeWaitsForAgreement(t *testing.T) {
	t.Parallel()
	env := "XDG_STATE_HOME=" + t.TempDir()
	path := writeConfig(t, "weir.yaml", "mcpServers: {one: {command: '%FAKE%'}}\n")
	weir(t, env, "trust", "--yes", path).want(t, exitOK)
	s := startWith(t, []string{env}, path, "serve", "--listen", "127.0.0.1:0")
	s.await("one is listed", func(h gateway.Health) bool { return h.Upstreams["one"].Tools > 0 })
	next, err := os.ReadFile(writeConfig(t, "weir.yaml", "mcpServers: {one: {command: '%FAKE%'}, two: {command: '%FAKE%'}}\n"))
	if err == nil {
		err = os.WriteFile(path, next, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(20 * time.Second); !strings.Contains(s.stderr.String(), "has changed since you agreed"); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("the refusal is not logged:\n%s", s.stderr)
		}
	}
	if _, there := s.health().Upstreams["two"]; there {
		t.Fatal("the change was applied")
	}
	weir(t, env, "trust", "--yes", path).want(t, exitOK)
	s.await("two is listed", func(h gateway.Health) bool { return h.Upstreams["two"].Tools > 0 })
}
