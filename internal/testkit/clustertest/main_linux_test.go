package clustertest_test

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/testkit/clustertest"
	"github.com/weir-mcp/weir/internal/testkit/leak"
	"github.com/weir-mcp/weir/internal/testkit/proctest"
)

var (
	seedFlag  = flag.Uint64("seed", 0, "the seed of what tests break; 0: another one each time")
	before    = flag.String("before", "", "the commit or tag of the weir that TestUpgrade replaces; \"\": the newest tag whose weir knows clusters, and the program itself if there is none")
	chaosTime = flag.Duration("chaos", 0, "how long the tests of promises break things; 0: a few seconds")
)

// weirBin is the program under test.
var weirBin string

func TestMain(m *testing.M) {
	clustertest.Serve()
	serveReplica()
	serveLock()
	err := proctest.Guard()
	flag.Parse()
	dir := ""
	if err == nil {
		dir, err = os.MkdirTemp("", "weir-cluster-")
	}
	if err == nil {
		weirBin = filepath.Join(dir, "weir")
		var out []byte
		if out, err = exec.Command("go", "build", "-o", weirBin, "../../../cmd/weir").CombinedOutput(); err != nil {
			err = fmt.Errorf("building weir: %w\n%s", err, out)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	leak.Main(cleaner{m, dir})
}

// cleaner removes the program when the tests are done.
type cleaner struct {
	m   *testing.M
	dir string
}

func (c cleaner) Run() int {
	defer os.RemoveAll(c.dir)
	if *chaosTime > 0 {
		stop, err := machine.measure()
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer stop()
	}
	return c.m.Run()
}

// lasts returns how long a test breaks things, and what it adds to the times of promises. make chaos measures these
// times, and adds what the machine took for nothing in the last seconds; machines of CI are too slow for that.
func lasts() (breaking time.Duration, patience func() time.Duration) {
	if *chaosTime > 0 {
		return *chaosTime, machine.patience
	}
	return 3 * time.Second, func() time.Duration { return 45 * time.Second }
}
