package nodestore

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/weir-mcp/weir/internal/observe/telemetry"
	"github.com/weir-mcp/weir/internal/store/natsstore"
	"github.com/weir-mcp/weir/internal/testkit/natstest"
)

// streamed is an event of the stream.
type streamed struct {
	Time      time.Time
	Principal string
	Node, Inc string
}

// readStream returns the events of a stream, when there are n of them or none has come for long.
func readStream(t *testing.T, e *natsstore.Events, n int) (all []streamed) {
	t.Helper()
	after := uint64(0)
	for end := time.Now().Add(30 * time.Second); len(all) < n && time.Now().Before(end); {
		m, ok, err := e.Next(t.Context(), after)
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			time.Sleep(50 * time.Millisecond)
			continue
		}
		after = m.Seq
		for line := range bytes.Lines(m.Body) {
			var one streamed
			if err := json.Unmarshal(line, &one); err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			all = append(all, one)
		}
	}
	return all
}

func happened(principal string) telemetry.Event {
	return telemetry.Event{Time: time.Now(), Name: telemetry.ExecuteCompleted, MetaTool: "tool_execute", Principal: principal}
}

// TestStreamOfSeveralGateways: each gateway reads the events of both, with the node of each, also those that a gateway has
// sent at its end. Without the key there is no stream.
func TestStreamOfSeveralGateways(t *testing.T) {
	s := natstest.Start(t, server.Options{})
	node := func(name, more string) string {
		return fmt.Sprintf("store: {at: 'nats://%s', max_bytes: 16MB}\ncluster: {node: %s, key: %q, listen: '127.0.0.1:0'}\n%s", s.At(), name, sharedKey, more)
	}
	conn, err := nats.Connect(s.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	off := openShares(t, node("off", ""))[0]
	if off.Sink() != nil || off.StreamFigures() != nil {
		t.Error("a gateway without events.stream has a stream")
	}
	if _, err := js.Stream(t.Context(), "WEIR_weir_EVENTS"); !errors.Is(err, jetstream.ErrStreamNotFound) {
		t.Fatalf("the stream without events.stream: %v", err)
	}
	stores := openShares(t, node("a", "events: {stream: true}"), node("b", "events: {stream: true}"))
	a, b := stores[0], stores[1]
	incs := map[string]string{"ann": a.node.Inc(), "bob": b.node.Inc()}
	a.Sink()(happened("ann"))
	b.Sink()(happened("bob"))
	if all := readStream(t, b.events, 2); len(all) != 2 {
		t.Fatalf("the events of two gateways: %+v", all)
	}
	a.Sink()(happened("ann"))
	a.Close()
	all := readStream(t, b.events, 3)
	if len(all) != 3 {
		t.Fatalf("the events after the end of one: %+v", all)
	}
	for _, e := range all {
		if want := map[string]string{"ann": "a", "bob": "b"}[e.Principal]; e.Node != want || e.Inc != incs[e.Principal] || e.Time.IsZero() {
			t.Errorf("an event of %s: %+v", want, e)
		}
	}
	if sent, lost := a.StreamFigures()(); sent != 2 || lost != 0 {
		t.Errorf("a gateway that has ended sent %d and lost %d", sent, lost)
	}
	stream, err := js.Stream(t.Context(), "WEIR_weir_EVENTS")
	if err != nil {
		t.Fatal(err)
	}
	if bound := stream.CachedInfo().Config.MaxBytes; bound != 16<<20 {
		t.Errorf("the stream may have %d bytes", bound)
	}
}
