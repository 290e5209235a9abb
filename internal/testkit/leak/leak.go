package leak

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime"
	"strings"
	"time"
)

// patience is how long goroutines that are already on their way out get to end: a closed connection's reader needs a
// moment to see it. It is only waited for when something is still there.
const patience = 5 * time.Second

// expected lists functions that may be on the stack of a goroutine after all tests are done. They
// belong to the runtime and to the testing package and run as long as the process.
var expected = []string{
	"testing.(*M).",                      // the goroutine of TestMain itself
	"testing.runFuzzing",                 // the fuzzing coordinator
	"testing.(*F).Fuzz",                  // a fuzzing worker
	"testing.runExample",                 // the reader of an Example's output
	"os/signal.signal_recv",              // started by the first signal.Notify of a process, never ends
	"os/signal.loop",                     // the same, as it is called from Go 1.26 on
	"runtime.ensureSigM",                 // its helper
	"runtime.ReadTrace",                  // go test -trace
	"runtime/trace.Start",                // the same
	"runtime/pprof.profileWriter",        // go test -cpuprofile
	"runtime/coverage.",                  // go test -cover
	"internal/godebug.(*Setting).",       // counters of GODEBUG settings
	"crypto/internal/fips140/drbg.init.", // self tests of the standard library
}

// Runner is the part of *testing.M that Main needs.
type Runner interface{ Run() int }

// Main runs the tests of a package and exits the process: with the tests' own code if they failed, with 1 if they passed but
// goroutines survived them, and with 0 otherwise. Surviving goroutines are printed with their stacks and the place that
// started them. It is called from TestMain as its only statement and does not return.
func Main(m Runner) {
	os.Exit(run(m, os.Stderr, patience))
}

func run(m Runner, stderr io.Writer, patience time.Duration) int {
	if code := m.Run(); code != 0 {
		return code // A failed test often leaves goroutines; its own message is the one to read.
	}
	left := Wait(patience)
	if len(left) == 0 {
		return 0
	}
	fmt.Fprintf(stderr, "leak: %d goroutine(s) still run %s after the last test. Every goroutine needs an owner that waits for its end:\n", len(left), patience)
	for _, g := range left {
		fmt.Fprintf(stderr, "\n%s\n", g.Stack)
	}
	return 1
}

// Goroutine is one goroutine that should not be there.
type Goroutine struct {
	Function string // the function on top of its stack, e.g. "net.(*netFD).Accept"
	Stack    string // as the runtime prints it, with the place that started it
}

// Wait returns the unexpected goroutines of the process, except the caller's own. While there are
// any, it checks again until patience has passed. It must not run while tests are running, because
// it would report their goroutines.
func Wait(patience time.Duration) []Goroutine {
	// Idle connections of the shared client are kept for reuse, not leaked.
	http.DefaultClient.CloseIdleConnections()
	began := time.Now()
	for pause := time.Millisecond; ; pause = min(2*pause, 100*time.Millisecond) {
		left := unexpected(stacks())
		if len(left) == 0 || time.Since(began) >= patience {
			return left
		}
		time.Sleep(pause)
	}
}

// stacks returns the stacks of all goroutines, the calling one first.
func stacks() string {
	for size := 1 << 16; ; size *= 2 {
		buf := make([]byte, size)
		if n := runtime.Stack(buf, true); n < size {
			return string(buf[:n])
		}
	}
}

// unexpected picks the goroutines out of a dump whose first entry is the caller and drops those that are expected.
func unexpected(dump string) []Goroutine {
	var left []Goroutine
	for i, stack := range strings.Split(strings.TrimSpace(dump), "\n\n") {
		if i == 0 || isExpected(stack) {
			continue
		}
		left = append(left, Goroutine{Function: topFunction(stack), Stack: stack})
	}
	return left
}

// isExpected looks at the functions of a stack only, not at the places that started it: a goroutine started by a test is a
// leak although the testing package is named in its last line.
func isExpected(stack string) bool {
	for line := range strings.Lines(stack) {
		if strings.HasPrefix(line, "created by ") {
			break
		}
		for _, function := range expected {
			if strings.HasPrefix(line, function) {
				return true
			}
		}
	}
	return false
}

// topFunction is the second line of a stack without its arguments: the first says number and state.
func topFunction(stack string) string {
	_, rest, _ := strings.Cut(stack, "\n")
	line, _, _ := strings.Cut(rest, "\n")
	if end := strings.LastIndexByte(line, '('); end > 0 {
		line = line[:end]
	}
	return line
}
