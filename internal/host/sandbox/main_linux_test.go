package sandbox_test

import (
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/weir-mcp/weir/internal/host/sandbox"
)

const nobody = 65534

// docs has the table of what each way holds, and docsVariable its text.
const (
	docs         = "../../../docs/sandbox.md"
	docsVariable = "TRY_DOCS"
)

// TestMain runs the tests as a user, not as root: for root some walls are no walls, and servers are not run by root.
func TestMain(m *testing.M) {
	sandbox.Run()
	if len(os.Args) > 2 && os.Args[1] == "try" {
		syscall.Exit(try(os.Args[2])) // os.Exit sleeps for a second with the race detector
	}
	if len(os.Args) == 3 && os.Args[1] == "dial" {
		os.Exit(dial(os.Args[2]))
	}
	if os.Getuid() == 0 {
		os.Exit(asUser() + asRoot(m))
	}
	os.Exit(m.Run())
}

// asRoot runs the test of containers, if it was asked for.
func asRoot(m *testing.M) int {
	flag.Parse()
	set := func(name, value string) (had string) {
		one := flag.Lookup(name)
		had = one.Value.String()
		if err := one.Value.Set(value); err != nil {
			panic(err) // cannot happen: a text
		}
		return had
	}
	if flag.Lookup("test.list").Value.String() != "" {
		return 0
	}
	set("test.bench", "")
	if asked, err := regexp.MatchString(set("test.run", "^"+containers+"$"), containers); err != nil || !asked {
		return 0
	}
	return m.Run()
}

// asUser runs the tests again as another user, with a home of its own.
func asUser() int {
	fail := func(err error) int { fmt.Println(err); return 1 }
	dir, err := os.MkdirTemp("", "weir-sandbox-test-")
	if err != nil {
		return fail(err)
	}
	defer os.RemoveAll(dir)
	home, self := filepath.Join(dir, "home"), filepath.Join(dir, "sandbox.test")
	from, err := os.Open("/proc/self/exe")
	if err != nil {
		return fail(err)
	}
	defer from.Close()
	to, err := os.OpenFile(self, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		return fail(err)
	}
	_, err = io.Copy(to, from)
	if cerr := to.Close(); err == nil {
		err = cerr
	}
	for _, one := range []func() error{
		func() error { return err },
		func() error { return os.Mkdir(home, 0o755) },
		func() error { return os.Chmod(dir, 0o755) },
		func() error { return os.Chown(home, nobody, nobody) },
	} {
		if err := one(); err != nil {
			return fail(err)
		}
	}
	args := slices.DeleteFunc(slices.Clone(os.Args[1:]), func(arg string) bool { return strings.HasPrefix(arg, "-test.testlogfile=") })
	args = append(args, "-test.skip=^"+containers+"$")
	c := exec.Command(self, args...)
	c.Stdout, c.Stderr, c.Dir = os.Stdout, os.Stderr, "."
	page, err := os.ReadFile(docs) // the other user may not read the folder of the sources
	if err != nil {
		return fail(err)
	}
	c.Env = append(os.Environ(), "HOME="+home, "TMPDIR="+home, "GOCOVERDIR=", docsVariable+"="+string(page))
	c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	if err := c.Run(); err != nil {
		return fail(err)
	}
	return 0
}
