package hub_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/weir-mcp/weir/smcp/hub"
)

// BenchmarkCall measures a call of an Agent to a Computer at another node over a NATS server in this process.
// x_same is how many times as long it takes as a call to a Computer at the Agent's own node, in the same run.
func BenchmarkCall(b *testing.B) {
	m := newNATS(b)
	one, two := m.start(hub.Options{}), m.start(hub.Options{})
	agent := join(b, one.url, peerOptions{}, "agent", "o", "o")
	join(b, one.url, peerOptions{answer: answers()}, "computer", "near", "o")
	join(b, two.url, peerOptions{answer: answers()}, "computer", "far", "o")
	agent.hears(`notify:enter_office {"office_id":"o","computer":"far"}`)
	call := func(computer string) time.Duration {
		began := time.Now()
		if _, err := agent.client.EmitWithAck(b.Context(), "client:tool_call", json.RawMessage(toolCall("o", computer, "t"))); err != nil {
			b.Fatal(err)
		}
		return time.Since(began)
	}
	var near, far time.Duration
	for b.Loop() {
		near += call("near")
		far += call("far")
	}
	b.ReportMetric(float64(far)/float64(near), "x_same")
	b.ReportMetric(float64((far-near).Nanoseconds())/float64(b.N), "added-ns/call")
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
