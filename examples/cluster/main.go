package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"text/tabwriter"
	"time"
)

func main() {
	if serveNATS() {
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	kept, err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	switch {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintln(os.Stderr, "cluster:", err)
		os.Exit(2)
	case !kept:
		os.Exit(1)
	}
}

// Times of the promises.
const (
	callTimeout   = 20 * time.Second // a call has an answer within it
	returnTime    = 10 * time.Second // Computers of a killed node are in their office again within it
	browsesMinute = 20               // calls of tool_browse that a client may make in a minute
)

// options are the flags.
type options struct {
	weir        string
	nodes       int
	every, last time.Duration
	patience    time.Duration // added to the times of the promises
	nats        bool          // the NATS server is killed as well
	install     bool
}

// run measures, prints and reports whether all promises were kept. It ends early with ctx.
func run(ctx context.Context, args []string, out io.Writer) (kept bool, err error) {
	var o options
	flags := flag.NewFlagSet("cluster", flag.ContinueOnError)
	flags.SetOutput(out)
	flags.StringVar(&o.weir, "weir", "", "the `program`; default: the one of this checkout, which is built")
	flags.IntVar(&o.nodes, "nodes", 3, "how many weirs, 2 to 9")
	flags.DurationVar(&o.every, "kill", 10*time.Second, "how often one is killed")
	flags.DurationVar(&o.last, "for", time.Minute, "how long")
	flags.DurationVar(&o.patience, "patience", 0, "added to the times of the promises, for a slow machine")
	flags.BoolVar(&o.nats, "nats", true, "kill the NATS server, too")
	flags.BoolVar(&o.install, "install", false, "install clients of the TypeScript and Python SDKs and of python-socketio, which then take part; it needs npm and Python")
	if err := flags.Parse(args); err != nil {
		return false, err
	}
	if o.install {
		if err := install(ctx, out); err != nil {
			return false, err
		}
	}
	switch {
	case flags.NArg() > 0:
		return false, fmt.Errorf("%q is no flag; -h lists them", flags.Arg(0))
	case o.nodes < 2 || o.nodes > 9:
		return false, fmt.Errorf("-nodes %d: give it 2 to 9", o.nodes)
	case o.every <= 0 || o.last < o.every:
		return false, fmt.Errorf("-kill %v -for %v: nothing would be killed; give -for at least the time of -kill", o.every, o.last)
	}
	began := time.Now()
	say := func(format string, args ...any) {
		fmt.Fprintf(out, "%6.1f s  %s\n", time.Since(began).Seconds(), fmt.Sprintf(format, args...))
	}
	say("building and starting %d weirs and a NATS server", o.nodes)
	tool, err := serveCounter()
	if err != nil {
		return false, err
	}
	defer tool.close()
	c, err := start(ctx, o, tool.url)
	if err != nil {
		return false, err
	}
	defer c.close()
	l, err := startLoad(ctx, c.url, callTimeout+o.patience)
	if err != nil {
		return false, err
	}
	defer l.close()
	f, err := openOffice(ctx, c.url, tool, callTimeout+o.patience)
	if err != nil {
		return false, err
	}
	defer f.close()
	s, err := startSDKs(c)
	defer s.close()
	if err != nil {
		return false, err
	}
	if len(s.clients) == 0 {
		say("no clients of other SDKs: -install installs them")
	}
	say("clients work at %s", c.url)

	working, stop := context.WithCancel(ctx)
	var all sync.WaitGroup
	all.Go(func() { l.work(working) })
	all.Go(func() { f.work(working) })
	kills, err := breakNodes(ctx, c, f, o, say)
	stop()
	all.Wait()
	if err != nil {
		return false, err
	}
	if kills == 0 {
		return false, errors.New("it ended before the first kill")
	}
	say("%d kills; each session makes a last call", kills)
	settled, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute+o.patience)
	defer cancel()
	l.settle(settled)
	s.settle(settled)
	calls, twice := tool.count()
	rows := slices.Concat(l.rows(), f.rows(), s.rows(o.patience))
	rows = append(rows, row{"no call runs twice", fmt.Sprintf("%d of %d calls", twice, calls), twice == 0})
	return table(out, rows), nil
}

// breakNodes kills one node after the other and starts it again, and the NATS server each second time, until the time is over or ctx ends.
func breakNodes(ctx context.Context, c *cluster, f *office, o options, say func(string, ...any)) (kills int, err error) {
	over := time.After(o.last)
	for next := time.After(o.every); ; {
		select {
		case <-ctx.Done():
			return kills, nil
		case <-over:
			return kills, nil
		case <-next:
		}
		n := c.nodes[kills%len(c.nodes)]
		began := time.Now()
		n.kill()
		kills++
		say("%s killed", n.name)
		next = time.After(o.every)
		lost, back := f.back(ctx, began, returnTime+o.patience)
		say("%d of %d Computers came to another node, the last after %.1f s", lost, len(f.computers), back.Seconds())
		if err := n.start(ctx); err != nil {
			return kills, cmp.Or(ctx.Err(), err)
		}
		say("%s started again", n.name)
		if o.nats && kills%2 == 1 {
			sleep(ctx, o.every/2) // sessions of the weir have gone elsewhere: that needs the store
			c.nats.kill()
			if err := c.startNATS(c.store); err != nil {
				return kills, err
			}
			say("the NATS server killed and started again")
		}
	}
}

// row is a promise and what became of it.
type row struct {
	promise, gave string
	kept          bool
}

// table prints the rows and reports whether all promises were kept.
func table(out io.Writer, rows []row) (kept bool) {
	kept = true
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "\nPROMISE\tGAVE\tKEPT\n")
	for _, r := range rows {
		answer := "yes"
		if !r.kept {
			answer, kept = "NO", false
		}
		fmt.Fprintf(w, "%s\t%s\t%s\n", r.promise, strings.ReplaceAll(r.gave, "\n", " "), answer)
	}
	_ = w.Flush()
	return kept
}
