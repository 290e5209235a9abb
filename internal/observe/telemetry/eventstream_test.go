package telemetry

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// shelf takes batches, unless it is away.
type shelf struct {
	mu      sync.Mutex // guards below
	away    bool
	hang    bool
	ids     map[string]bool
	lines   []string
	batches int
}

func (s *shelf) send(ctx context.Context, id string, lines []byte) error {
	s.mu.Lock()
	away, hang := s.away, s.hang
	s.mu.Unlock()
	if hang {
		<-ctx.Done()
		return ctx.Err()
	}
	if away {
		return errors.New("the store is away")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ids == nil {
		s.ids = map[string]bool{}
	}
	if s.ids[id] {
		return errors.New("a batch with the id of another")
	}
	s.ids[id] = true
	s.batches++
	s.lines = append(s.lines, strings.Split(strings.TrimSuffix(string(lines), "\n"), "\n")...)
	return nil
}

func (s *shelf) set(away, hang bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.away, s.hang = away, hang
}

func (s *shelf) got() (lines []string, batches int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lines, s.batches
}

func inOne() string { return "abc123" }

// TestEventStream: events are sent in few batches, in order, with their node, and Close sends what waits.
func TestEventStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var to shelf
		s := NewEventStream(StreamOptions{Send: to.send, Node: "weir-1", Inc: inOne})
		for i := range 100 {
			s.Write(Event{Time: time.Now(), Name: ExecuteCompleted, MetaTool: "tool_execute", Attempts: i + 1, Principal: "ann\u202e"})
		}
		time.Sleep(2 * streamPause)
		lines, batches := to.got()
		if len(lines) != 100 || batches != 1 {
			t.Fatalf("%d lines in %d batches", len(lines), batches)
		}
		for i, line := range lines {
			var e struct {
				Attempts  int
				Node, Inc string
			}
			if err := json.Unmarshal([]byte(line), &e); err != nil || e.Attempts != i+1 || e.Node != "weir-1" || e.Inc != "abc123" {
				t.Fatalf("line %d is %s: %v", i, line, err)
			}
			if strings.ContainsRune(line, '\u202e') {
				t.Fatalf("line %d has characters that change how it is shown: %q", i, line)
			}
		}
		s.Write(Event{Name: "last"})
		s.Close()
		s.Close()
		s.Write(Event{Name: "too late"})
		if lines, _ := to.got(); len(lines) != 101 {
			t.Errorf("%d lines after the end", len(lines))
		}
		if sent, lost := s.Figures(); sent != 101 || lost != 1 {
			t.Errorf("sent %d, lost %d", sent, lost)
		}
	})
}

// TestEventStreamOfAStoreThatIsAway: events wait within a bound, none is sent twice, each one that is lost is counted, and
// the log says so once a minute.
func TestEventStreamOfAStoreThatIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var to shelf
		var log bytes.Buffer
		s := NewEventStream(StreamOptions{Send: to.send, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		to.set(true, false)
		s.Write(Event{Name: "waits"})
		time.Sleep(streamPatience / 2)
		to.set(false, false)
		time.Sleep(streamPatience)
		if lines, _ := to.got(); len(lines) != 1 {
			t.Fatalf("an election loses events: %q", lines)
		}

		to.set(true, false)
		written := int64(1)
		detail := strings.Repeat("x", 1000)
		for range 180 { // three minutes
			for range 50 {
				s.Write(Event{Name: "outage", Detail: detail})
				written++
			}
			s.mu.Lock()
			if s.bytes > streamRoom {
				t.Errorf("%d bytes wait", s.bytes)
			}
			s.mu.Unlock()
			time.Sleep(time.Second)
		}
		to.set(false, false)
		time.Sleep(2 * streamPatience)
		s.Close()
		lines, _ := to.got()
		sent, lost := s.Figures()
		if int64(len(lines)) != sent || sent+lost != written || lost == 0 || sent < 500 {
			t.Errorf("%d written, %d stored, %d sent, %d lost", written, len(lines), sent, lost)
		}
		if n := strings.Count(log.String(), "events are missing"); n < 3 || n > 5 || !strings.Contains(log.String(), "the store is away") {
			t.Errorf("the log in %d lines: %s", n, log.String())
		}
	})
}

// TestEventStreamEnds: a store that hangs delays the end by a second.
func TestEventStreamEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var to shelf
		to.set(false, true)
		s := NewEventStream(StreamOptions{Send: to.send})
		for range 300 {
			s.Write(Event{Name: "hangs", Detail: strings.Repeat("x", 1000)})
		}
		began := time.Now()
		s.Close()
		if took := time.Since(began); took > streamDrain {
			t.Errorf("the end took %v", took)
		}
		if sent, lost := s.Figures(); sent != 0 || lost != 300 {
			t.Errorf("sent %d, lost %d", sent, lost)
		}
		var none *EventStream
		none.Close()
	})
}

func BenchmarkEventStream(b *testing.B) {
	s := NewEventStream(StreamOptions{Send: func(context.Context, string, []byte) error { return nil }, Node: "weir-1", Inc: inOne})
	defer s.Close()
	e := Event{Time: time.Now(), Name: ExecuteCompleted, Session: "0123456789ab", Principal: "ann", MetaTool: "tool_execute", ToolID: "files:read_file", Upstream: "files", Duration: time.Millisecond, Attempts: 1}
	b.ReportAllocs()
	for b.Loop() {
		s.Write(e)
	}
}
