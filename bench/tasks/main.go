package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "tasks:", err)
		os.Exit(1)
	}
}

// ways are how tools reach the agent. A way without a program to run is left out.
var ways = []struct {
	name, section string
}{
	{"native", "native"},
	{"single calls before", "before"},
	{"single calls", "single"},
	{"programs", "program"},
}

const (
	native = iota
	before
	single
	programs
)

// run is the program.
func run(ctx context.Context, args []string, out io.Writer) error {
	var weir, older, servers, only, list string
	f := flag.NewFlagSet("tasks", flag.ContinueOnError)
	f.SetOutput(io.Discard) // the error says what is wrong
	f.StringVar(&weir, "weir", "bin/weir", "the `program`")
	f.StringVar(&older, "before", "", "an earlier `program` of weir")
	f.StringVar(&servers, "servers", "", "`file` with servers; without it there are weir's own")
	f.StringVar(&only, "only", "", "`pattern` for the names of the tasks to play")
	f.StringVar(&list, "serve", "", "serve the tools of this `file` on standard input and output, and nothing else")
	if err := f.Parse(args); err != nil {
		return err
	}
	if list != "" {
		return serveList(ctx, list, os.Stdin, os.Stdout)
	}
	names, err := regexp.Compile(only)
	if f.NArg() > 0 || err != nil {
		return errors.Join(err, fmt.Errorf("unknown arguments: %q", f.Args()))
	}
	t, err := measure(ctx, weir, older, servers, names)
	if err != nil {
		return err
	}
	return t.print(out)
}

// measure plays the tasks in each way.
func measure(ctx context.Context, weir, older, servers string, names *regexp.Regexp) (*table, error) {
	for _, program := range []*string{&weir, &older} {
		if *program == "" {
			continue
		}
		path, err := filepath.Abs(*program)
		if err != nil {
			return nil, err
		}
		*program = path
	}
	s, err := newStage(ctx, weir, servers)
	if err != nil {
		return nil, err
	}
	defer s.close()
	all, err := readTasks(s.has)
	if err != nil {
		return nil, err
	}
	t := &table{older: older != "", servers: len(s.servers)}
	for _, task := range all {
		if names.MatchString(task.name) {
			t.rows = append(t.rows, row{task: task})
		}
	}
	for w := range ways {
		program := weir
		if w == before {
			if program = older; program == "" {
				continue
			}
		}
		if err := t.column(ctx, s, w, program); err != nil {
			return nil, fmt.Errorf("%s: %w", ways[w].name, err)
		}
	}
	t.tools = s.tools
	return t, nil
}
