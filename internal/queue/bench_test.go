package queue

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/store"
)

// work is a call without a queue: what the overhead is measured against.
func work(_ context.Context, j *Job) (json.RawMessage, error) {
	return append(json.RawMessage(nil), j.Payload...), nil
}

// The queue's own cost of a call that somebody waits for; the bound is 20 µs.
func BenchmarkDo(b *testing.B) {
	payload := json.RawMessage(`{"a":1}`)
	q := NewPlaces(PlaceOptions{Run: work})
	defer q.Close(b.Context())
	const probe = 100_000
	start := time.Now()
	job := &Job{Payload: payload}
	for range probe {
		if _, err := work(b.Context(), job); err != nil {
			b.Fatal(err)
		}
	}
	direct := float64(time.Since(start).Nanoseconds()) / probe
	b.ReportAllocs()
	for b.Loop() {
		if _, err := q.Do(b.Context(), Spec{Payload: payload}); err != nil {
			b.Fatal(err)
		}
	}
	call := float64(b.Elapsed().Nanoseconds()) / float64(b.N)
	b.ReportMetric(call/direct, "x_direct")
	b.ReportMetric((call-direct)/1000, "µs_overhead")
}

// The same with 16 callers on 4 places.
func BenchmarkDoContended(b *testing.B) {
	q := NewPlaces(PlaceOptions{Run: work, Concurrency: 4})
	defer q.Close(b.Context())
	b.SetParallelism(8)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := q.Do(b.Context(), Spec{Payload: json.RawMessage(`{}`)}); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

// BenchmarkAccept measures the acceptance of 10,000 tasks by 16 callers, on disk and in memory.
func BenchmarkAccept(b *testing.B) {
	const tasks, callers = 10_000, 16
	accept := func(docs store.Docs) float64 {
		hold := make(chan struct{})
		q, err := New(Options{Docs: docs, PlaceOptions: PlaceOptions{Max: tasks, Run: func(context.Context, *Job) (json.RawMessage, error) {
			<-hold
			return nil, nil
		}}})
		if err != nil {
			b.Fatal(err)
		}
		var next atomic.Int32
		var all sync.WaitGroup
		start := time.Now()
		for range callers {
			all.Go(func() {
				for next.Add(1) <= tasks {
					if _, err := q.Submit(Spec{Owner: "ann", Name: "index", Payload: json.RawMessage(`{"tool":"index","input":{"path":"/some/where"}}`)}); err != nil {
						b.Error(err)
						return
					}
				}
			})
		}
		all.Wait()
		rate := tasks / time.Since(start).Seconds()
		close(hold)
		if err := q.Close(b.Context()); err != nil {
			b.Fatal(err)
		}
		return rate
	}
	var disk, memory float64
	for n := 0; b.Loop(); n++ {
		s, err := OpenFile(filepath.Join(b.TempDir(), fmt.Sprint("store", n)), slog.New(slog.DiscardHandler))
		if err != nil {
			b.Fatal(err)
		}
		disk, memory = accept(s), accept(OpenMemory())
		s.Close()
	}
	b.ReportMetric(disk, "tasks/s")
	b.ReportMetric(disk/memory, "x_memory")
}

// BenchmarkSubmit measures a task in memory, from its arrival to its result.
func BenchmarkSubmit(b *testing.B) {
	q, err := New(Options{Docs: OpenMemory(), PlaceOptions: PlaceOptions{Run: echo}})
	if err != nil {
		b.Fatal(err)
	}
	defer q.Close(b.Context())
	b.ReportAllocs()
	for b.Loop() {
		t, err := q.Submit(Spec{Owner: "ann", Name: "index", Payload: json.RawMessage(`{"tool":"index","input":{"path":"/some/where"}}`)})
		if err != nil {
			b.Fatal(err)
		}
		if _, err := q.Wait(b.Context(), "ann", t.ID); err != nil {
			b.Fatal(err)
		}
	}
}
