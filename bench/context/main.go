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
