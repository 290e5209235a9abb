package gateway

import (
	"encoding/json"
	"runtime"
	"sync"
	"testing"
	"unsafe"
)

func addressOf(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }

// A large buffer is used again, by one call at a time, until the collector takes it.
func TestSpareParams(t *testing.T) {
	var s spareParams
	first := s.take(spareFrom)
	second := s.take(spareFrom)
	if addressOf(first) == addressOf(second) {
		t.Fatal("two calls have one buffer")
	}
	again := false
	for range 100 { // the collector may run between the two
		s.give(json.RawMessage(first))
		if again = addressOf(s.take(spareFrom)) == addressOf(first); again {
			break
		}
	}
	if !again {
		t.Error("no buffer is used again")
	}
	s.give(json.RawMessage(first))
	if got := s.take(maxSpare); cap(got) < maxSpare || len(got) != 0 {
		t.Errorf("a buffer of %d bytes with room for %d", len(got), cap(got))
	}
	for name, params := range map[string]json.RawMessage{"small": make([]byte, spareFrom-1), "too large": make([]byte, maxSpare+1)} {
		s.give(params)
		if s.last.Value() != nil {
			t.Errorf("a %s buffer is kept", name)
		}
	}
	s.give(append(second, "params"...))
	runtime.KeepAlive(first)
	runtime.GC()
	if s.last.Value() != nil {
		t.Error("an idle session keeps a buffer")
	}
}

// Calls of a session at the same time never share a buffer.
func TestSpareParamsOfManyCalls(t *testing.T) {
	var s spareParams
	var all sync.WaitGroup
	for n := range byte(8) {
		all.Go(func() {
			for range 500 {
				params := s.take(spareFrom)[:spareFrom]
				for i := 0; i < len(params); i += 1024 {
					params[i] = n
				}
				for i := 0; i < len(params); i += 1024 {
					if params[i] != n {
						t.Error("another call writes to the buffer")
						return
					}
				}
				s.give(params)
			}
		})
	}
	all.Wait()
}
