package cli

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// transcriptOfGo is the record of a machine that has Go and a clone of the repository alone.
const transcriptOfGo = "../../docs/transcript-go.txt"

// TestTranscriptOfGo goes through the record of a machine with Go alone: a person whose client has
// one server, written in Go, installs weir from the clone, and the first useful call comes within a
// minute after that. make transcript writes the record, with an empty build cache, so that it shows
// how long the first compile takes.
func TestTranscriptOfGo(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the record has the paths of a Unix")
	}
	text, err := os.ReadFile(transcriptOfGo)
	if err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	bin := filepath.Join(home, "go", "bin")
	env := append(environment("HOME="+home, "XDG_CONFIG_HOME=", "XDG_STATE_HOME=", "XDG_DATA_HOME=", "DBUS_SESSION_BUS_ADDRESS=",
		"PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"), "GOBIN="+bin), goCaches(t, home)...)
	cursor := filepath.Join(home, ".cursor", "mcp.json")
	if err := os.MkdirAll(filepath.Dir(cursor), 0o755); err != nil {
		t.Fatal(err)
	}
	before := fmt.Appendf(nil, "{\n  \"mcpServers\": {\n    \"units\": { \"command\": %q }\n  }\n}\n", filepath.Join(bin, "units"))
	if err := os.WriteFile(cursor, before, 0o644); err != nil {
		t.Fatal(err)
	}
	goInstall(t, env, "./examples/units") // the person's own server
	var out strings.Builder
	var useful time.Duration
	answered := false
	for line := range strings.Lines(string(text)) {
		command, ok := strings.CutPrefix(strings.TrimSpace(line), "$ ")
		if !ok {
			continue
		}
		start, printed := time.Now(), ""
		if pkg, ok := strings.CutPrefix(command, "go install "); ok {
			goInstall(t, env, pkg)
		} else {
			printed = ran(t, env, home, words(command))
			useful += time.Since(start)
		}
		fmt.Fprintf(&out, "$ %s\n%s(%.1f s)\n\n", command, printed, time.Since(start).Seconds())
		if strings.HasPrefix(command, "weir call ") && !answered {
			answered = true
			if !strings.Contains(printed, "26.10 miles") {
				t.Errorf("the call answers %s", printed)
			}
			if useful > time.Minute {
				t.Errorf("the first useful call has its answer after %s", useful)
			}
		}
	}
	if after, err := os.ReadFile(cursor); err != nil || !bytes.Equal(after, before) || !answered {
		t.Errorf("at the end the client's file is %s (%v), and a call was answered: %t", after, err, answered)
	}
	if *transcript && !t.Failed() {
		if err := os.WriteFile(transcriptOfGo, []byte(strings.ReplaceAll(out.String(), home, "~")), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// goCaches returns variables for the caches of Go: those of this machine, whatever the home, and an
// empty one for builds where the record is written.
func goCaches(t *testing.T, home string) []string {
	t.Helper()
	out, err := exec.Command("go", "env", "GOCACHE", "GOMODCACHE", "GOFLAGS").Output()
	lines := strings.Split(string(out), "\n")
	if err != nil || len(lines) < 3 {
		t.Fatalf("go env: %v, %q", err, out)
	}
	if *transcript {
		lines[0] = filepath.Join(home, "cache")
	}
	return []string{"GOCACHE=" + lines[0], "GOMODCACHE=" + lines[1], "GOFLAGS=" + lines[2]}
}

// goInstall runs go install for a package of the repository.
func goInstall(t *testing.T, env []string, pkg string) {
	t.Helper()
	cmd := exec.Command("go", "install", pkg)
	cmd.Dir, cmd.Env = filepath.Join("..", ".."), env
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go install %s: %v\n%s", pkg, err, out)
	}
}

// ran runs a command of the record in the home and returns what it printed.
func ran(t *testing.T, env []string, home string, command []string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(home, "go", "bin", command[0]), command[1:]...)
	cmd.Dir, cmd.Env = home, env
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil || len(out) == 0 {
		t.Fatalf("%v: %v\n%s%s", command, err, out, stderr.Bytes())
	}
	return string(out)
}
