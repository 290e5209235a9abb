package hub_test

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/link"
	"github.com/weir-mcp/weir/internal/observe/telemetry"
	"github.com/weir-mcp/weir/smcp/hub"
)

// BenchmarkCall measures a call of an Agent to a Computer at another node: over the peer link, with TLS, and over a NATS
// server in this process, which takes the messages while there is no link. x_same is how many times as long it takes as
// a call to a Computer at the Agent's own node, in the same run, and x_cpu how many times as much CPU time. x_echo and
// echo-cpu-ns are what a call would have if the other node were a bare echo over TLS.
func BenchmarkCall(b *testing.B) {
	b.Run("link", func(b *testing.B) { benchmarkCall(b, true) })
	b.Run("nats", func(b *testing.B) { benchmarkCall(b, false) })
}

func benchmarkCall(b *testing.B, linked bool) {
	m := newNATS(b)
	m.linked = linked
	one, two := m.start(hub.Options{}), m.start(hub.Options{})
	agent := join(b, one.url, peerOptions{}, "agent", "o", "o")
	join(b, one.url, peerOptions{answer: answers()}, "computer", "near", "o")
	join(b, two.url, peerOptions{answer: answers()}, "computer", "far", "o")
	agent.hears(`notify:enter_office {"office_id":"o","computer":"far"}`)
	call := func(computer string) func() error {
		return func() error {
			_, err := agent.client.EmitWithAck(b.Context(), "client:tool_call", json.RawMessage(toolCall("o", computer, "t")))
			return err
		}
	}
	// All are called in turns. The medians count, as other programs of the machine disturb single calls.
	const turn = 10
	all := [3]func() error{call("near"), call("far"), newEcho(b)}
	var times [3][]time.Duration
	var cpu [3]time.Duration
	for i := 0; b.Loop(); i++ {
		at := i / turn % len(all)
		used, began := telemetry.CPU(), time.Now()
		if err := all[at](); err != nil {
			b.Fatal(err)
		}
		times[at] = append(times[at], time.Since(began))
		cpu[at] += telemetry.CPU() - used
	}
	if len(times[2]) == 0 {
		return // too few to compare
	}
	var median [3]time.Duration
	for at := range times {
		slices.Sort(times[at])
		median[at] = times[at][len(times[at])/2]
		cpu[at] /= time.Duration(len(times[at]))
	}
	near, far, echo := median[0], median[1], median[2]
	b.ReportMetric(float64(far)/float64(near), "x_same")
	b.ReportMetric(float64(near+echo)/float64(near), "x_echo")
	b.ReportMetric(float64(cpu[1])/float64(cpu[0]), "x_cpu")
	b.ReportMetric(float64((far - near).Nanoseconds()), "added-ns/call")
	b.ReportMetric(float64((cpu[1] - cpu[0]).Nanoseconds()), "added-cpu-ns/call")
	b.ReportMetric(float64(cpu[2].Nanoseconds()), "echo-cpu-ns")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkCalls is BenchmarkCall over the peer link with 16 calls at a time, which share writes.
func BenchmarkCalls(b *testing.B) {
	const callers, batch = 16, 320
	m := newNATS(b)
	m.linked = true
	one, two := m.start(hub.Options{}), m.start(hub.Options{})
	agent := join(b, one.url, peerOptions{}, "agent", "o", "o")
	join(b, one.url, peerOptions{answer: answers()}, "computer", "near", "o")
	join(b, two.url, peerOptions{answer: answers()}, "computer", "far", "o")
	agent.hears(`notify:enter_office {"office_id":"o","computer":"far"}`)
	var times, cpu [2]time.Duration
	var calls [2]int
	for turn := 0; calls[0]+calls[1] < b.N; turn = 1 - turn {
		payload := json.RawMessage(toolCall("o", []string{"near", "far"}[turn], "t"))
		used, began := telemetry.CPU(), time.Now()
		var all sync.WaitGroup
		for range callers {
			all.Go(func() {
				for range batch / callers {
					if _, err := agent.client.EmitWithAck(b.Context(), "client:tool_call", payload); err != nil {
						b.Error(err)
						return
					}
				}
			})
		}
		all.Wait()
		times[turn] += time.Since(began)
		cpu[turn] += telemetry.CPU() - used
		calls[turn] += batch
	}
	if b.Failed() || calls[1] == 0 {
		return // too few to compare
	}
	each := func(d [2]time.Duration, turn int) float64 { return float64(d[turn]) / float64(calls[turn]) }
	b.ReportMetric(each(times, 1)/each(times, 0), "x_same")
	b.ReportMetric(each(cpu, 1)/each(cpu, 0), "x_cpu")
	b.ReportMetric(each(cpu, 1)-each(cpu, 0), "added-cpu-ns/call")
	b.ReportMetric(0, "ns/op")
}

// newEcho returns a function that sends the bytes of a call over a connection with the TLS of nodes, and waits for
// those of its answer.
func newEcho(b *testing.B) func() error {
	b.Helper()
	const asked, answered = 400, 120 // as the frames of a call and its answer
	key, err := link.Parse(testKey)
	if err != nil {
		b.Fatal(err)
	}
	conf := link.NewAuthority("n", key, nil, nil).TLS()
	l, err := tls.Listen("tcp", "127.0.0.1:0", conf)
	if err != nil {
		b.Fatal(err)
	}
	var done sync.WaitGroup
	done.Go(func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer func() { _ = conn.Close() }()
		for buf := make([]byte, asked); err == nil; {
			if _, err = io.ReadFull(conn, buf); err == nil {
				_, err = conn.Write(buf[:answered])
			}
		}
	})
	conn, err := tls.Dial("tcp", l.Addr().String(), conf)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = conn.Close(); _ = l.Close(); done.Wait() })
	buf := make([]byte, asked)
	return func() error {
		if _, err := conn.Write(buf); err != nil {
			return err
		}
		_, err := io.ReadFull(conn, buf[:answered])
		return err
	}
}

// BenchmarkJoin measures a join and a leave at one of two nodes whose Agent is at the other one, on one replica: in an
// office that has no other Computer, and in one of 20. cpu-ns is the CPU time of all nodes, the store and the peers.
func BenchmarkJoin(b *testing.B) {
	b.Run("alone", func(b *testing.B) { benchmarkJoin(b, 0) })
	b.Run("20", func(b *testing.B) { benchmarkJoin(b, 20) })
}

func benchmarkJoin(b *testing.B, others int) {
	m := newNATS(b)
	one, two := m.start(hub.Options{}), m.start(hub.Options{})
	join(b, one.url, peerOptions{}, "agent", "o", "o")
	for i := range others {
		join(b, []string{one.url, two.url}[i%2], peerOptions{}, "computer", fmt.Sprint("c", i), "o")
	}
	desk := join(b, two.url, peerOptions{}, "computer", "desk", "o")
	used := telemetry.CPU()
	for b.Loop() {
		desk.call("server:leave_office", `{"office_id":"o"}`)
		desk.call("server:join_office", `{"role":"computer","name":"desk","office_id":"o"}`)
	}
	b.ReportMetric(float64((telemetry.CPU()-used).Nanoseconds())/float64(b.N), "cpu-ns/op")
}
