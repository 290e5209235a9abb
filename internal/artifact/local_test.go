package artifact

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// TestJanitorNeedsNoTraffic looks inside: nobody calls the store, and still
// the bytes are gone when their time is over, and every trace a day later.
func TestJanitorNeedsNoTraffic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMemory(Options{TTL: time.Minute})
		defer m.Close()
		for i := range 10 {
			if _, err := m.Put(t.Context(), "ann", "", "", []byte(fmt.Sprint(i))); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		held := func() (items, gone, spaces int) {
			m.ledger.mu.Lock()
			defer m.ledger.mu.Unlock()
			return m.ledger.byAge.Len(), m.ledger.gone.Len(), len(m.ledger.spaces)
		}
		time.Sleep(54*time.Second + time.Millisecond)
		synctest.Wait()
		if items, gone, _ := held(); items != 5 || gone != 5 {
			t.Errorf("%d items and %d tombstones, want 5 and 5", items, gone)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if items, gone, spaces := held(); items != 0 || gone != 10 || spaces != 1 {
			t.Errorf("%d items, %d tombstones, %d spaces, want 0, 10, 1", items, gone, spaces)
		}
		time.Sleep(goneFor)
		synctest.Wait()
		if items, gone, spaces := held(); items != 0 || gone != 0 || spaces != 0 {
			t.Errorf("%d items, %d tombstones, %d spaces, want none", items, gone, spaces)
		}
	})
}

func TestTombstonesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMemory(Options{MaxCount: 1})
		defer m.Close()
		var handles []string
		for i := range maxGone + 10 {
			a, err := m.Put(t.Context(), "ann", "", "", []byte(fmt.Sprint(i)))
			if err != nil {
				t.Fatal(err)
			}
			handles = append(handles, a.Handle)
		}
		if m.ledger.gone.Len() != maxGone {
			t.Errorf("%d tombstones, want %d", m.ledger.gone.Len(), maxGone)
		}
		if _, _, err := m.Get(t.Context(), "ann", handles[0]); !errors.Is(err, ErrUnknown) {
			t.Errorf("oldest: %v, want unknown", err)
		}
		if _, _, err := m.Get(t.Context(), "ann", handles[maxGone]); !errors.Is(err, ErrEvicted) {
			t.Errorf("youngest: %v, want evicted", err)
		}
	})
}

func TestSecretKeepsHandlesOverRestarts(t *testing.T) {
	handle := func(secret string) string {
		m := NewMemory(Options{Secret: []byte(secret)})
		defer m.Close()
		a, err := m.Put(t.Context(), "ann", "", "", []byte("x"))
		if err != nil {
			t.Fatal(err)
		}
		return a.Handle
	}
	if a, b := handle("s1"), handle("s1"); a != b {
		t.Errorf("one secret gives %s and %s", a, b)
	}
	if a, b := handle("s1"), handle("s2"); a == b {
		t.Error("two secrets give one handle")
	}
	if a, b := handle(""), handle(""); a == b {
		t.Error("two random secrets give one handle")
	}
}

func BenchmarkPut(b *testing.B) {
	m := NewMemory(Options{})
	defer m.Close()
	data := make([]byte, 100<<10)
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		data[0], data[1], data[2] = byte(i), byte(i>>8), byte(i>>16)
		if _, err := m.Put(b.Context(), "ann", "", "", data); err != nil {
			b.Fatal(err)
		}
	}
}

// A token is an argument of commands, too, where one with "-" in front would be a
// flag: one in 64 would.
func TestNewToken(t *testing.T) {
	seen := map[string]bool{}
	for range 2000 {
		token := newToken()
		if len(token) != 43 || token[0] == '-' || seen[token] {
			t.Fatalf("%q", token)
		}
		seen[token] = true
	}
}
