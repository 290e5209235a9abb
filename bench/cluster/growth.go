package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"

	"github.com/weir-mcp/weir/internal/observe/telemetry"
	"github.com/weir-mcp/weir/internal/office/member"
	"github.com/weir-mcp/weir/smcp"
	"github.com/weir-mcp/weir/socketio/engineio"
)

// asComputers is the argument that makes this program some Computers: a process of their own, so that the figures of
// this one belong to the nodes. Their number, the Computers in an office and the URLs of the nodes follow. It says
// when it is done with a step, and waits for a line before the next one.
const asComputers = "computers"

const (
	officeSize = 20  // Computers in an office
	maxOffices = 200 // of one Computer each, which show the cost of an office
	together   = 16  // joins at a time
	connecting = 32  // connections that are made at a time
)

// growth is the cost of Computers for the nodes of a cluster and the store in their process.
type growth struct {
	join       time.Duration // of a single one, median
	cpu        time.Duration // of one of many, over all nodes and the store
	rate       float64       // joins in a second
	heap       float64       // bytes of memory a Computer
	goroutines float64       // a Computer
	stored     float64       // bytes a member
}

// grow measures a number of Computers that come to the nodes in turn, some in each office.
func (g *gateways) grow(count, size int) (r growth, err error) {
	args := []string{asComputers, strconv.Itoa(count), strconv.Itoa(size)}
	for _, n := range g.nodes {
		args = append(args, n.front.URL)
	}
	before, lines, held := heap(), runtime.NumGoroutine(), g.stored()
	cmd := exec.Command(os.Args[0], args...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return r, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return r, err
	}
	if err := cmd.Start(); err != nil {
		return r, err
	}
	defer func() {
		_ = in.Close() // the Computers end
		if failed := cmd.Wait(); err == nil {
			err = failed
		}
	}()
	said := bufio.NewScanner(out)
	step := func() (took time.Duration, err error) {
		if !said.Scan() {
			return 0, fmt.Errorf("the Computers ended: %v", said.Err())
		}
		took, err = time.ParseDuration(said.Text())
		if err == nil {
			_, err = fmt.Fprintln(in)
		}
		return took, err
	}
	if _, err := step(); err != nil { // they are connected
		return r, err
	}
	if r.join, err = step(); err != nil {
		return r, err
	}
	used := telemetry.CPU()
	took, err := step()
	if err != nil {
		return r, err
	}
	many := count - alone(count)
	r.cpu = (telemetry.CPU() - used) / time.Duration(many)
	r.rate = float64(many) / took.Seconds()
	r.heap = (float64(heap()) - float64(before)) / float64(count)
	r.goroutines = float64(runtime.NumGoroutine()-lines) / float64(count)
	r.stored = float64(g.stored()-held) / float64(count)
	return r, nil
}

// alone is the number of Computers that join one after the other.
func alone(count int) int { return max(1, count/5) }

// stored returns the bytes that the store keeps.
func (g *gateways) stored() (bytes int) {
	info, err := g.nats.Jsz(&natsserver.JSzOptions{Streams: true, Accounts: true})
	if err != nil {
		return 0
	}
	for _, account := range info.AccountDetails {
		for _, stream := range account.Streams {
			bytes += int(stream.State.Bytes)
		}
	}
	return bytes
}

// beComputers makes this process Computers, until its input ends.
func beComputers(args []string, in io.Reader, out io.Writer) error {
	if len(args) < 3 {
		return fmt.Errorf("%s COUNT SIZE URL…", asComputers)
	}
	count, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	size, err := strconv.Atoi(args[1])
	if err != nil || size < 1 {
		return fmt.Errorf("%q Computers in an office: %w", args[1], err)
	}
	urls, next := args[2:], bufio.NewScanner(in)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	all := make([]*member.Member, count)
	defer func() {
		var ending sync.WaitGroup
		for _, m := range all {
			if m != nil {
				ending.Go(func() { _ = m.Close() })
			}
		}
		ending.Wait()
	}()
	if err := each(0, count, connecting, func(i int) (err error) {
		all[i], err = member.New(member.Options{
			URL: urls[i%len(urls)], Role: smcp.RoleComputer, Name: fmt.Sprint("computer", i), Engine: engineio.ClientConfig{Transports: []engineio.Transport{engineio.WebSocket}},
		})
		if err != nil {
			return err
		}
		return all[i].Start(ctx)
	}); err != nil {
		return err
	}
	says := func(took time.Duration) bool {
		fmt.Fprintln(out, took)
		return next.Scan()
	}
	if !says(0) {
		return nil
	}
	offices := max(1, count/size)
	join := func(i int) error { return all[i].Join(ctx, fmt.Sprint("office", i%offices)) }
	var times []time.Duration
	for i := range alone(count) {
		began := time.Now()
		if err := join(i); err != nil {
			return err
		}
		times = append(times, time.Since(began))
	}
	if !says(median(times)) {
		return nil
	}
	began := time.Now()
	if err := each(alone(count), count, together, join); err != nil {
		return err
	}
	if says(time.Since(began)) {
		next.Scan()
	}
	return nil
}

// each calls f with the numbers from one to below another one, some at a time, and returns the first error.
func each(from, to, atATime int, f func(i int) error) error {
	var all sync.WaitGroup
	turns, failed := make(chan struct{}, atATime), make(chan error, to-from)
	for i := from; i < to; i++ {
		turns <- struct{}{}
		all.Go(func() {
			defer func() { <-turns }()
			if err := f(i); err != nil {
				failed <- err
			}
		})
	}
	all.Wait()
	close(failed)
	return <-failed
}

// growthHead is the head of the table of growth.
const growthHead = "| nodes | Computers | join, p50 | CPU a join | joins/s | heap a Computer | goroutines a Computer | stored a member " +
	"| heap an office | stored an office | agents | an agent registers, p50 | CPU of it | heap an agent and node | stored an agent | CPU a heartbeat | writes a heartbeat |"

// row returns the row of a table.
func (r growth) row(nodes, count int) string {
	return fmt.Sprintf("| %d | %d | %v | %v | %.0f | %.1f KB | %.1f | %.0f B |",
		nodes, count, r.join.Round(10*time.Microsecond), r.cpu.Round(time.Microsecond), r.rate, r.heap/1024, r.goroutines, r.stored)
}

// rule returns the line under the head of a table.
func rule(head string) string {
	return strings.Repeat("| --- ", strings.Count(head, "|")-1) + "|"
}

// officeCost returns the columns of an office, from Computers in offices of officeSize and others in offices of their
// own: both have the cost of a Computer, and a part of the cost of an office.
func officeCost(many, single growth) string {
	part := 1 - 1.0/officeSize
	return fmt.Sprintf(" %.1f KB | %.0f B |", (single.heap-many.heap)/part/1024, (single.stored-many.stored)/part)
}
