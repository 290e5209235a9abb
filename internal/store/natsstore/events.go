package natsstore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// eventsAge is how long events are kept.
const eventsAge = 24 * time.Hour

// EventsOptions configures Events.
type EventsOptions struct {
	// Stream is the name of the stream, and Subject the subject of its messages.
	Stream, Subject string
	// Replicas is as in Options.
	Replicas int
	// MaxBytes bounds the stream. At the bound, new messages replace the oldest ones.
	MaxBytes int64
}

// Events is a stream of messages that end after a day, or when newer ones need their room. It is safe for concurrent
// use, and has no goroutines: a stream that cannot be opened yet is opened by a later Append.
type Events struct {
	js jetstream.JetStream
	o  EventsOptions

	mu     sync.Mutex       // guards below
	stream jetstream.Stream // nil until the servers have answered
}

// NewEvents returns the Events of a connection without asking the servers.
func NewEvents(conn *nats.Conn, o EventsOptions) (*Events, error) {
	js, err := jetstream.New(conn, jetstream.WithDefaultTimeout(requestTimeout))
	if err != nil {
		return nil, err
	}
	return &Events{js: js, o: o}, nil
}

// open returns the stream, which it makes if there is none.
func (e *Events) open(ctx context.Context) (jetstream.Stream, error) {
	e.mu.Lock()
	stream := e.stream
	e.mu.Unlock()
	if stream != nil {
		return stream, nil
	}
	want := jetstream.StreamConfig{
		Name: e.o.Stream, Subjects: []string{e.o.Subject}, MaxBytes: e.o.MaxBytes, MaxAge: eventsAge,
		Discard: jetstream.DiscardOld, Storage: jetstream.FileStorage,
	}
	replicas := e.o.Replicas
	stream, err := e.js.Stream(ctx, e.o.Stream)
	found := err == nil
	if err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil, failure(err)
	}
	if found && replicas == 0 {
		replicas = stream.CachedInfo().Config.Replicas
	}
	// An update that changes nothing is a write of the servers nevertheless.
	if have := have(stream, found); !found || have.MaxBytes != want.MaxBytes || have.MaxAge != want.MaxAge || have.Replicas != replicas {
		if stream, err = createOrUpdate(ctx, e.js, replicas, want); err != nil {
			return nil, fmt.Errorf("open the stream %s: %w", e.o.Stream, failure(err))
		}
	}
	e.mu.Lock()
	e.stream = stream
	e.mu.Unlock()
	return stream, nil
}

// have returns the configuration of a stream that was found.
func have(stream jetstream.Stream, found bool) (c jetstream.StreamConfig) {
	if found {
		c = stream.CachedInfo().Config
	}
	return c
}

// Append adds a message, and returns when the servers have confirmed it. A message with the id of one of the last two
// minutes is confirmed and not added again: a caller may repeat an Append that has failed.
func (e *Events) Append(ctx context.Context, id string, body []byte) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	if _, err := e.open(ctx); err != nil {
		return err
	}
	_, err := e.js.PublishMsg(ctx, &nats.Msg{Subject: e.o.Subject, Data: body}, jetstream.WithMsgID(id), jetstream.WithExpectStream(e.o.Stream))
	if err == nil {
		return nil
	}
	if errors.Is(err, jetstream.ErrNoStreamResponse) || errors.Is(err, nats.ErrNoResponders) {
		e.mu.Lock()
		e.stream = nil // an operator may have removed it
		e.mu.Unlock()
	}
	return failure(err)
}

// EventsMessage is a message of Events.
type EventsMessage struct {
	Seq  uint64 // its number; the next one has a higher one
	Time time.Time
	Body []byte
}

// Next returns the first message with a number above after. ok is false if there is none.
func (e *Events) Next(ctx context.Context, after uint64) (m EventsMessage, ok bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	stream, err := e.open(ctx)
	if err != nil {
		return m, false, err
	}
	raw, err := stream.GetMsg(ctx, after+1, jetstream.WithGetMsgSubject(e.o.Subject))
	switch {
	case errors.Is(err, jetstream.ErrMsgNotFound):
		return m, false, nil
	case err != nil:
		return m, false, failure(err)
	}
	return EventsMessage{raw.Sequence, raw.Time, raw.Data}, true, nil
}

// Before returns the number of the last message that is older than a time, or 0. Next continues from there.
func (e *Events) Before(ctx context.Context, at time.Time) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	stream, err := e.open(ctx)
	if err != nil {
		return 0, err
	}
	info, err := stream.Info(ctx)
	if err != nil {
		return 0, failure(err)
	}
	// Messages up to low are older, and those above high are not. A message may be gone meanwhile: it was old.
	low, high := max(info.State.FirstSeq, 1)-1, info.State.LastSeq
	for low < high {
		middle := low + (high-low)/2
		m, ok, err := e.Next(ctx, middle)
		switch {
		case err != nil:
			return 0, err
		case ok && m.Seq <= high && m.Time.Before(at):
			low = m.Seq
		default:
			high = middle
		}
	}
	return low, nil
}
