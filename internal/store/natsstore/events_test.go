package natsstore_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/weir-mcp/weir/internal/store/natsstore"
	"github.com/weir-mcp/weir/internal/testkit/natstest"
)

func eventsOptions() natsstore.EventsOptions {
	return natsstore.EventsOptions{Stream: "WEIR_weir_EVENTS", Subject: "weir.weir.events", Replicas: 1, MaxBytes: 16 << 20}
}

// TestEvents: messages come back in order from any number and any time; a repeated one is there once; the stream is there
// with the first message, next to documents that have all of their room, and again after an operator has removed it.
func TestEvents(t *testing.T) {
	t.Parallel()
	const docs = 64 << 20
	s := natstest.Start(t, server.Options{JetStreamMaxStore: docs + eventsOptions().MaxBytes})
	d, _, err := natsstore.Open(t.Context(), s.Conn(), natsstore.Options{Bucket: "weir", Changes: "weir.weir.d", Replicas: 1, MaxBytes: docs})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	e, err := natsstore.NewEvents(s.Conn(), eventsOptions())
	if err != nil {
		t.Fatal(err)
	}
	js, err := jetstream.New(s.Conn())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.Stream(t.Context(), eventsOptions().Stream); !errors.Is(err, jetstream.ErrStreamNotFound) {
		t.Fatalf("the stream before the first message: %v", err)
	}
	var times []time.Time
	for i := range 20 {
		for range 2 { // the second one is a repetition
			if err := e.Append(t.Context(), fmt.Sprint("id", i), fmt.Append(nil, i)); err != nil {
				t.Fatal(err)
			}
		}
	}
	after := uint64(0)
	for i := range 20 {
		m, ok, err := e.Next(t.Context(), after)
		if err != nil || !ok || string(m.Body) != fmt.Sprint(i) {
			t.Fatalf("message %d is %q, %v, %v", i, m.Body, ok, err)
		}
		after = m.Seq
		times = append(times, m.Time)
	}
	if _, ok, err := e.Next(t.Context(), after); ok || err != nil {
		t.Errorf("after the last message: %v, %v", ok, err)
	}
	for i, at := range times {
		seq, err := e.Before(t.Context(), at)
		if err != nil {
			t.Fatal(err)
		}
		if m, ok, err := e.Next(t.Context(), seq); err != nil || !ok || m.Time.Before(at) || m.Time.After(at) {
			t.Errorf("from the time of message %d, the first is %q of %v", i, m.Body, m.Time)
		}
	}
	if seq, err := e.Before(t.Context(), time.Now().Add(time.Hour)); err != nil || seq != after {
		t.Errorf("before the future: %d, %v", seq, err)
	}
	stream, err := js.Stream(t.Context(), eventsOptions().Stream)
	if err != nil {
		t.Fatal(err)
	}
	if c := stream.CachedInfo().Config; c.MaxAge != 24*time.Hour || c.MaxBytes != 16<<20 || c.Discard != jetstream.DiscardOld {
		t.Errorf("the stream is %+v", c)
	}
	if err := js.DeleteStream(t.Context(), eventsOptions().Stream); err != nil {
		t.Fatal(err)
	}
	if err := e.Append(t.Context(), "lost", []byte("x")); err == nil {
		t.Error("a removed stream has confirmed a message")
	}
	if err := e.Append(t.Context(), "lost", []byte("x")); err != nil {
		t.Errorf("the attempt after that: %v", err)
	}
}

// TestEventsOfAStoreThatIsAway: an attempt ends with its context.
func TestEventsOfAStoreThatIsAway(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t, server.Options{})
	e, err := natsstore.NewEvents(s.Conn(), eventsOptions())
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if err := e.Append(ctx, "a", []byte("x")); err == nil {
		t.Error("a store that has ended has confirmed a message")
	}
}
