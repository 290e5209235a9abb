package program_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/weir-mcp/weir/internal/program"
	"github.com/weir-mcp/weir/internal/testkit/leak"
)

func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == "fake-worker" {
		fakeWorker(os.Args[2])
	}
	program.RunWorker() // the workers of these tests are this executable, except under the race detector
	leak.Main(tests{m})
}

// tests remove the worker that command has built.
type tests struct{ *testing.M }

func (t tests) Run() int {
	defer os.Remove(builtWorker())
	return t.M.Run()
}

func builtWorker() string {
	return filepath.Join(os.TempDir(), fmt.Sprintf("weir-program-worker-%d", os.Getpid()))
}

// command starts a worker of these tests.
var command = sync.OnceValues(func() ([]string, error) {
	if !raced {
		return program.Self()
	}
	path := builtWorker()
	out, err := exec.Command("go", "build", "-race=false", "-o", path, "./testdata/worker").CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("%w: %s", err, out)
	}
	return []string{path, "program-worker"}, nil
})
