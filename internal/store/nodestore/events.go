package nodestore

import (
	"fmt"
	"log/slog"

	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/observe/telemetry"
	"github.com/weir-mcp/weir/internal/store/natsstore"
)

// openEvents starts the stream of events, if it is configured. It does not ask the store: a stream that cannot be opened
// is opened with a later event.
func (s *Store) openEvents(c *config.Config, log *slog.Logger) (err error) {
	if !c.Events.Stream {
		return nil
	}
	name := s.Cluster()
	streams, ok := s.Store.(interface {
		Events(o natsstore.EventsOptions) (*natsstore.Events, error)
	})
	if !ok {
		return fmt.Errorf("events.stream: the store %s has no stream of events; name NATS servers in store.at", c.Store.At)
	}
	s.events, err = streams.Events(natsstore.EventsOptions{
		Stream: "WEIR_" + name + "_EVENTS", Subject: "weir." + name + ".events", Replicas: c.Store.Replicas, MaxBytes: c.StreamBytes(),
	})
	if err != nil {
		return err
	}
	o := telemetry.StreamOptions{Send: s.events.Append, Logger: log}
	o.Node, o.Inc = c.Cluster.Node, s.node.Inc
	s.stream = telemetry.NewEventStream(o)
	return nil
}

// Sink returns a function that takes events for the stream, nil without one.
func (s *Store) Sink() func(telemetry.Event) {
	if s.stream == nil {
		return nil
	}
	return s.stream.Write
}

// StreamFigures returns how many events the stream has sent and lost, nil without one.
func (s *Store) StreamFigures() func() (sent, lost int64) {
	if s.stream == nil {
		return nil
	}
	return s.stream.Figures
}

// Events returns the events of all gateways that share the store, nil without a stream of them.
func (s *Store) Events() *natsstore.Events {
	return s.events
}
