package tasks

import (
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/store"
)

// TestForgottenTask: a task that made room is not written again by a request that still follows it,
// and a task of a server that ends with the gateway is never written.
func TestForgottenTask(t *testing.T) {
	docs := store.NewMemory(store.MemoryOptions{})
	kept := func() (n int) {
		for range docs.List(t.Context(), keyPrefix) {
			n++
		}
		return n
	}
	r := NewRegistry(nil)
	if err := r.Keep(t.Context(), docs); err != nil {
		t.Fatal(err)
	}
	add := func(server string) *task {
		t.Helper()
		made := &task{owner: owner{principal: "ann"}, server: server}
		if !r.add(made, time.Hour, 1) {
			t.Fatal("no room")
		}
		if err := r.keep(made); err != nil {
			t.Fatal(err)
		}
		return made
	}
	first := add("a")
	if kept() != 1 {
		t.Errorf("%d tasks are kept", kept())
	}
	first.state.Status = "completed"
	second := add("")
	if err := r.save(first); err != nil || kept() != 0 {
		t.Errorf("%d tasks are kept, %v", kept(), err)
	}
	if second.expires.IsZero() || r.Len() != 1 {
		t.Errorf("%d tasks, %v", r.Len(), second.expires)
	}
}
