// Command context counts what tools cost a model in tokens (cl100k_base, exact):
// the servers' own definitions, proxy mode, and gateway mode.
//
//	definitions ─┐                        ┌─ native   every definition, raw results
//	             ├─▶ the same two tasks ──┼─ proxy    stripped definitions, tool_hydrate, tool_execute
//	results ─────┘   of a made-up agent   └─ gateway  three definitions, tool_browse, tool_execute, tool_view
//
// The agent (agent.go) finds a tool, calls it, reads what it needs of the
// result, and does so with a second one. Everything it sends and reads is
// counted, nothing is estimated; the gateway is the one that weir serves, in this
// process. It knows nothing of models: what one would say between its calls is
// the same in all modes and left out.
//
//	go run ./bench/context                      a made-up catalogue of 4,086 tools
//	go run ./bench/context -data DIR            the tools of DIR/*/tools.jsonl
//	go run ./bench/context -servers FILE.json   real servers and a task: interop/context.mjs writes such a file
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run is the program. It returns the exit code: 0, 1 where something failed, 2
// for a wrong use.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var data, servers string
	f := flag.NewFlagSet("context", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.StringVar(&data, "data", "", "`folder` with sets of tools: DIR/<set>/tools.jsonl")
	f.StringVar(&servers, "servers", "", "`file` with real servers and a task")
	err := f.Parse(args)
	if err == nil && (f.NArg() > 0 || data != "" && servers != "") {
		err = errors.New("give -data or -servers or neither")
		fmt.Fprintln(stderr, "context:", err)
	}
	if err != nil {
		return 2
	}
	var s *stage
	switch {
	case servers != "":
		s, err = startServers(ctx, servers)
	case data != "":
		s, err = readSets(data)
	default:
		s, err = madeUp(madeUpTools)
	}
	if err == nil {
		err = measure(ctx, s, stdout)
		err = errors.Join(err, s.close())
	}
	if err != nil {
		fmt.Fprintln(stderr, "context:", err)
		return 1
	}
	return 0
}
