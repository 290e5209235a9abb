package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// settings are the flags.
type settings struct {
	weir    string
	callers []int
	sizes   []int
	rounds  int
	round   time.Duration
	systems string
	calls   int
	idle    time.Duration
	browses int
	strict  bool

	programs bool   // nginx and haproxy
	peers    []peer // gateways that the user has started
	upstream string // address of the upstream
}

// Limits of the flags; larger tests need another tool.
const (
	maxCallers = 1024
	maxSize    = 8 << 20
	maxRounds  = 1000
	maxRound   = time.Minute
	maxCalls   = 10_000_000
	maxIdle    = 10 * time.Minute
)

// run is the program. It returns the exit code: 0, 1 where something failed or,
// with -strict, a target was missed, 2 for a wrong use.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	fail := func(err error) int {
		fmt.Fprintln(stderr, "bench:", err)
		return 1
	}
	if len(args) > 0 {
		var serve func() error
		switch args[0] {
		case "upstream":
			serve = func() error { return serveUpstream(ctx, args[1:], stdin, stdout) }
		case "stdio":
			serve = func() error { return serveStdio(stdin, stdout) }
		case "hop":
			serve = func() error { return serveHop(ctx, args[1:], stdin, stdout) }
		case "proxy":
			serve = func() error { return serveProxy(ctx, args[1:], stdin, stdout) }
		}
		if serve != nil {
			if err := serve(); err != nil {
				return fail(err)
			}
			return 0
		}
	}
	s, err := parseFlags(args, stderr)
	if err != nil {
		return 2
	}
	missed, err := measure(ctx, s, stdout)
	if err != nil {
		return fail(err)
	}
	if s.strict && missed > 0 {
		return fail(fmt.Errorf("%d targets missed", missed))
	}
	return 0
}

func parseFlags(args []string, stderr io.Writer) (settings, error) {
	s := settings{callers: []int{16, 1}, sizes: []int{100, 100 << 10}}
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.StringVar(&s.weir, "weir", "", "the weir `binary`; it is built where none is given")
	f.Func("callers", "numbers of concurrent callers (default 16,1)", intsFlag(&s.callers, maxCallers))
	f.Func("bytes", "payloads, of the arguments and of the result (default 100,102400)", intsFlag(&s.sizes, maxSize))
	f.IntVar(&s.rounds, "rounds", 9, "rounds per system and table")
	f.DurationVar(&s.round, "round", 500*time.Millisecond, "duration of a round")
	f.StringVar(&s.systems, "systems", "", "measure only systems whose name contains this (and the baseline)")
	f.IntVar(&s.calls, "memory-calls", 100_000, "calls before memory is looked at; 0 leaves it out")
	f.DurationVar(&s.idle, "memory-idle", 30*time.Second, "time between these calls and the look")
	f.IntVar(&s.browses, "browses", 2000, "calls of tool_browse over 10,000 tools; 0 leaves them out")
	f.BoolVar(&s.programs, "peers", false, "measure nginx and haproxy in the same rounds, where they are installed")
	f.Func("peer", "measure a gateway that runs already, too: `NAME=URL#TOOL`, with the name of echo there (default echo); may be repeated. The gateway's server is http://ADDRESS/"+legacyName+"/mcp, see -upstream", peerFlag(&s.peers))
	f.StringVar(&s.upstream, "upstream", freePort, "the `address` of the upstream; fix its port for -peer")
	f.BoolVar(&s.strict, "strict", false, "exit with 1 where a target is missed")
	if err := f.Parse(args); err != nil {
		return s, err
	}
	var err error
	switch {
	case f.NArg() > 0:
		err = fmt.Errorf("unexpected argument %q", f.Arg(0))
	case s.rounds < 1 || s.rounds > maxRounds:
		err = fmt.Errorf("-rounds must be 1 to %d", maxRounds)
	case s.round <= 0 || s.round > maxRound:
		err = fmt.Errorf("-round must be more than 0 and at most %v", maxRound)
	case s.calls < 0 || s.calls > maxCalls:
		err = fmt.Errorf("-memory-calls must be 0 to %d", maxCalls)
	case s.browses < 0 || s.browses > maxCalls:
		err = fmt.Errorf("-browses must be 0 to %d", maxCalls)
	case s.idle < 0 || s.idle > maxIdle:
		err = fmt.Errorf("-memory-idle must be 0 to %v", maxIdle)
	}
	if err != nil {
		fmt.Fprintln(stderr, "bench:", err)
	}
	return s, err
}

// intsFlag reads a list such as 16,1.
func intsFlag(into *[]int, limit int) func(string) error {
	return func(text string) error {
		*into = nil
		for part := range strings.SplitSeq(text, ",") {
			n, err := strconv.Atoi(part)
			if err != nil || n < 1 || n > limit {
				return fmt.Errorf("%q is no number from 1 to %d", part, limit)
			}
			*into = append(*into, n)
		}
		return nil
	}
}
