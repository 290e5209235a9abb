//go:build unix

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
	"text/tabwriter"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "socketio:", err)
		os.Exit(1)
	}
}

type options struct {
	seconds float64
	rounds  int
	only    string
	node    string
	dir     string
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("socketio", flag.ContinueOnError)
	flags.SetOutput(stderr)
	var o options
	serving := flags.Bool("serve", false, "be the server under test")
	flags.Float64Var(&o.seconds, "seconds", 3, "`length` of each measurement")
	flags.IntVar(&o.rounds, "rounds", 3, "`number` of turns that each server gets")
	flags.StringVar(&o.only, "only", "", "run one `part`: echo, broadcast or memory")
	flags.StringVar(&o.node, "node", "node", "the Node.js `program`")
	flags.StringVar(&o.dir, "dir", "bench/socketio", "where reference.mjs `is`")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *serving {
		return serve(ctx, stdout)
	}
	raiseFileLimit()
	var results []result
	for _, part := range parts(o) {
		best := map[string]result{}
		for range o.rounds {
			for _, kind := range []string{reference, ours} {
				r, err := measure(ctx, o, part, kind, stderr)
				if err != nil {
					return fmt.Errorf("%s, %s: %w", part.name, kind, err)
				}
				if old, ok := best[kind]; !ok || r.betterThan(old) {
					best[kind] = r
				}
			}
		}
		results = append(results, best[reference], best[ours])
	}
	return report(stdout, results)
}

// maxIdle is how many bytes an idle connection may cost.
const maxIdle = 8 << 10

const (
	reference = "socket.io"
	ours      = "weir"
)

// A part is one measurement.
type part struct {
	name   string
	unit   string
	target float64 // ours / reference for rates; bytes for memory
	run    func(context.Context, *server) (float64, error)
}

// A result is one number of one server.
type result struct {
	part  part
	kind  string
	value float64
}

func (p part) isMemory() bool { return p.target > 100 }

func (r result) betterThan(old result) bool { return (r.value > old.value) != r.part.isMemory() }

func parts(o options) []part {
	length := time.Duration(o.seconds * float64(time.Second))
	echo := func(connections, each int) func(context.Context, *server) (float64, error) {
		return func(ctx context.Context, s *server) (float64, error) {
			return measureEcho(ctx, s, connections, each, length)
		}
	}
	all := []part{
		{"echo, 50 connections × 4", "messages/CPU s", 1.5, echo(50, 4)},
		{"echo, 500 connections × 1", "messages/CPU s", 1.5, echo(500, 1)},
		{"broadcast to 1,000", "deliveries/s", 2, func(ctx context.Context, s *server) (float64, error) {
			return measureBroadcast(ctx, s, 1000, 4, length)
		}},
		{"idle memory, 5,000 connections", "bytes/connection", maxIdle, func(ctx context.Context, s *server) (float64, error) {
			return measureMemory(ctx, s, "", 5000)
		}},
	}
	names := map[string][]part{"": all, "echo": all[:2], "broadcast": all[2:3], "memory": all[3:]}
	return names[o.only]
}

func measure(ctx context.Context, o options, p part, kind string, stderr io.Writer) (r result, err error) {
	s, err := startServer(ctx, o, kind, stderr)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	value, err := p.run(ctx, s)
	return result{part: p, kind: kind, value: value}, err
}

// report prints a line a part and fails where a target is missed.
func report(w io.Writer, results []result) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "part\tunit\tsocket.io\tweir\tx_baseline\ttarget\t")
	var missed error
	for i := 0; i+1 < len(results); i += 2 {
		p, base, own := results[i].part, results[i].value, results[i+1].value
		ratio := own / base
		target, met := fmt.Sprintf("≥ %.1f", p.target), ratio >= p.target
		if p.isMemory() {
			target, met = fmt.Sprintf("≤ %.0f", p.target), own <= p.target
		}
		if !met {
			missed = errors.Join(missed, fmt.Errorf("%s: target %s missed", p.name, target))
		}
		fmt.Fprintf(table, "%s\t%s\t%.0f\t%.0f\t%.2f\t%s\t\n", p.name, p.unit, base, own, ratio, target)
	}
	return errors.Join(table.Flush(), missed)
}
