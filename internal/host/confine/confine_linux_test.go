package confine_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/host/confine"
)

// everywhere are the files that any program needs.
var everywhere = []string{"/usr", "/bin", "/lib", "/lib64", "/etc/ld.so.cache"}

// become starts a program behind walls.
func become(t *testing.T, w confine.Walls, program string, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	w.Name = "srv"
	return exec.Command(self, w.Arguments(program, args...)...)
}

func TestProgramBehindWalls(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"read", "write", "other"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	w := confine.Walls{Read: append([]string{dir + "/read", dir + "/missing"}, everywhere...), Write: []string{dir + "/write"}}
	c := become(t, w, "/bin/sh", "-c", "cd "+dir+"; cat read; echo x > write && echo written; cat other; echo $VALUE; exit 7")
	c.Env = []string{"VALUE=kept", "PATH=/usr/bin:/bin"}
	out, err := c.CombinedOutput()
	var ended *exec.ExitError
	if !errors.As(err, &ended) || ended.ExitCode() != 7 {
		t.Errorf("%v", err)
	}
	refused := "other: Permission denied\n"
	if confine.Landlock() == 0 {
		refused = "other\n"
	}
	for _, want := range []string{"readwritten\n", refused, "kept\n"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("%q is missing in %s", want, out)
		}
	}
}

func TestProgramThatCannotStart(t *testing.T) {
	for name, c := range map[string]*exec.Cmd{
		"no such program": become(t, confine.Walls{}, "/no/such/program"),
		"not readable":    become(t, confine.Walls{}, "/bin/true"),
	} {
		if confine.Landlock() == 0 && name == "not readable" {
			continue
		}
		out, err := c.CombinedOutput()
		if err == nil || !strings.Contains(string(out), `the server "srv" is not started`) {
			t.Errorf("%s: %v, %s", name, err, out)
		}
	}
}

// TestRootIsNoRoot: a program of root has no capability, and gets none from a program that it starts.
func TestRootIsNoRoot(t *testing.T) {
	out, err := become(t, confine.Walls{Read: append([]string{"/proc"}, everywhere...)}, "/bin/sh", "-c", "grep -E 'CapEff|CapPrm|CapBnd|NoNewPrivs' /proc/self/status").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, line := range strings.Split(strings.TrimSpace(string(out)), "\n") {
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimSpace(value)
		if name == "NoNewPrivs" && value != "1" || strings.HasPrefix(name, "Cap") && strings.Trim(value, "0") != "" && !(name == "CapBnd" && os.Getuid() != 0) {
			t.Errorf("%s", line)
		}
	}
}
