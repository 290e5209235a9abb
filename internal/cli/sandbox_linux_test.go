package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/host/confine"
)

// TestSandboxLearn: what a server touches becomes its entry, a person is asked, undo takes it back, and the server starts in the
// sandbox that was proposed.
func TestSandboxLearn(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.write(t, "data/notes", "notes\n")
	h.write(t, ".ssh/id_ed25519", "key\n")
	server := filepath.Join(h.dir, "server.sh")
	h.write(t, "server.sh", "#!/bin/sh\ncat "+h.dir+"/data/notes > /dev/null || exit 9\ncat "+h.dir+"/.ssh/id_ed25519 > /dev/null\necho x > "+h.dir+"/out/log || exit 8\nexec "+fakeBin+"\n")
	h.write(t, "out/log", "")
	const conf = "# mine\nmcpServers:\n  # odd\n  one:\n    command: sh\n    args: [SERVER]\n    sandbox: {memory: 1GB, read: [/srv]}\n  far: {url: https://a.example/mcp}\n"
	mine := strings.Replace(conf, "SERVER", server, 1)
	h.write(t, "weir.yaml", mine)
	read := func() string { return h.files(t)["weir.yaml"] }

	h.weir(t, "sandbox", "learn", "two").want(t, exitUsage, "no such server")
	h.weir(t, "sandbox", "learn", "far").want(t, exitUsage, "has no command")
	h.weir(t, "sandbox", "learn", "one", "--call", "nothing", "--dry-run").want(t, exitRefused)
	h.weir(t, "sandbox", "learn", "one", "--call", "echo={", "--dry-run").want(t, exitUsage, "no JSON")
	seen := h.weir(t, "sandbox", "learn", "one", "--dry-run", "--json").want(t, exitOK)
	if strings.Contains(seen.stdout, "not watched") {
		t.Log(seen.stdout)
		t.Skip("this machine watches no system calls")
	}
	h.weir(t, "sandbox", "learn", "one").want(t, exitUsage, "--yes")
	if read() != mine {
		t.Fatalf("without consent the file is\n%s", read())
	}
	h.weir(t, "sandbox", "learn", "one", "--yes").want(t, exitOK, "~/data/notes", ".ssh/id_ed25519, which is not proposed", "weir undo")
	got := read()
	for _, want := range []string{"# odd", "memory: 1GB", "/srv", "~/data/notes", "~/out/log", "net: none", fakeBin} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in\n%s", want, got)
		}
	}
	if strings.Contains(got, "id_ed25519") {
		t.Errorf("a key is written:\n%s", got)
	}
	if confine.Landlock() > 0 {
		h.weir(t, "ls", "--config", "weir.yaml").want(t, exitOK, "one   ready")
	}
	h.weir(t, "undo", "--yes").want(t, exitOK)
	if read() != mine {
		t.Errorf("after undo:\n%s\nwant\n%s", read(), mine)
	}
}

// TestConfinedEarly: the process of a server has its walls before the packages of the gateway are initialised.
func TestConfinedEarly(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	w := confine.Walls{Name: "srv", Boxed: true, Read: []string{"/"}}
	c := exec.Command(self, w.Arguments("/bin/echo", "started")...)
	c.Env = []string{"GODEBUG=inittrace=1"}
	out, err := c.CombinedOutput()
	if err != nil || !strings.HasSuffix(string(out), "started\n") {
		t.Fatalf("%v: %s", err, out)
	}
	for _, one := range []string{"net", "net/http", "github.com/santhosh-tekuri/jsonschema/v6", "google.golang.org/protobuf/reflect/protodesc"} {
		if strings.Contains(string(out), "init "+one+" ") {
			t.Errorf("%s is initialised first", one)
		}
	}
	if strings.Count(string(out), "\ninit ") < 10 {
		t.Errorf("no trace: %s", out)
	}
}
