package hub_test

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/telemetry"
	"github.com/weir-mcp/weir/smcp/hub"
)

// BenchmarkCall measures a call of an Agent to a Computer at another node: over the peer link, with TLS, and over a NATS
// server in this process, which takes the messages while there is no link. x_same is how many times as long it takes as
// a call to a Computer at the Agent's own node, in the same run, and x_cpu how many times as much CPU time.
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
	// Both are called in turns. The medians count, as other programs of the machine disturb single calls.
	const turn = 10
	var times [2][]time.Duration
	var cpu [2]time.Duration
	for i := 0; b.Loop(); i++ {
		at := i / turn % 2
		used, began := telemetry.CPU(), time.Now()
		if _, err := agent.client.EmitWithAck(b.Context(), "client:tool_call", json.RawMessage(toolCall("o", []string{"near", "far"}[at], "t"))); err != nil {
			b.Fatal(err)
		}
		times[at] = append(times[at], time.Since(began))
		cpu[at] += telemetry.CPU() - used
	}
	if len(times[1]) == 0 {
		return // too few to compare
	}
	for at := range times {
		slices.Sort(times[at])
		cpu[at] /= time.Duration(len(times[at]))
	}
	near, far := times[0][len(times[0])/2], times[1][len(times[1])/2]
	b.ReportMetric(float64(far)/float64(near), "x_same")
	b.ReportMetric(float64(cpu[1])/float64(cpu[0]), "x_cpu")
	b.ReportMetric(float64((far - near).Nanoseconds()), "added-ns/call")
	b.ReportMetric(float64((cpu[1] - cpu[0]).Nanoseconds()), "added-cpu-ns/call")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkJoin measures a join and a leave at one of two nodes whose Agent is at the other one, on one
// replica.
func BenchmarkJoin(b *testing.B) {
	m := newNATS(b)
	one, two := m.start(hub.Options{}), m.start(hub.Options{})
	join(b, one.url, peerOptions{}, "agent", "o", "o")
	desk := join(b, two.url, peerOptions{}, "computer", "desk", "o")
	for b.Loop() {
		desk.call("server:leave_office", `{"office_id":"o"}`)
		desk.call("server:join_office", `{"role":"computer","name":"desk","office_id":"o"}`)
	}
}
