package bounded_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-mcp/weir/internal/limit/bounded"
)

func TestEntriesExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := bounded.New(bounded.Options[string, int]{TTL: time.Minute})
		m.Put("a", 1, 0)
		time.Sleep(30 * time.Second)
		m.Put("b", 2, 0)
		if next := m.Expire(); next != 30*time.Second {
			t.Errorf("next in %v", next)
		}
		time.Sleep(30 * time.Second)
		if _, ok := m.Get("a"); ok || m.Len() != 1 {
			t.Error("a has not expired")
		}
		time.Sleep(29 * time.Second)
		m.Put("b", 3, 0) // its age starts anew
		time.Sleep(59 * time.Second)
		if v, ok := m.Take("b"); !ok || v != 3 {
			t.Errorf("b: %d, %v", v, ok)
		}
		if m.Expire() != 0 || m.Len() != 0 {
			t.Errorf("%d entries are left", m.Len())
		}
	})
}

// model is a Map in the simplest form: a slice, the next to be evicted in front.
type model struct {
	o    bounded.Options[byte, byte]
	list []modelEntry
}

type modelEntry struct {
	key, value byte
	size       int64
	put        time.Time
}

func (m *model) drop(i int) { m.list = slices.Delete(m.list, i, i+1) }

func (m *model) find(key byte) int {
	m.list = slices.DeleteFunc(m.list, func(e modelEntry) bool { return m.o.TTL > 0 && !e.put.Add(m.o.TTL).After(m.o.Now()) })
	return slices.IndexFunc(m.list, func(e modelEntry) bool { return e.key == key })
}

func (m *model) bytes() (n int64) {
	for _, e := range m.list {
		n += e.size
	}
	return n
}

func (m *model) put(key, value byte, size int64) bool {
	if m.o.MaxBytes > 0 && size > m.o.MaxBytes {
		return false
	}
	if i := m.find(key); i >= 0 {
		m.drop(i)
	}
	m.list = append(m.list, modelEntry{key, value, size, m.o.Now()})
	for m.o.MaxCount > 0 && len(m.list) > m.o.MaxCount || m.o.MaxBytes > 0 && m.bytes() > m.o.MaxBytes {
		m.drop(0)
	}
	return true
}

// FuzzMap compares a Map with its model. The first three bytes choose the bounds, and each three
// bytes after them one step.
func FuzzMap(f *testing.F) {
	f.Add([]byte{7, 3, 0, 0, 1, 2, 4, 1, 9, 8, 2, 2, 1, 1, 1, 3, 9, 9})
	f.Add([]byte{31, 2, 1, 0, 1, 2, 0, 2, 2, 0, 3, 2, 0, 4, 2, 1, 1, 1, 2, 2, 2, 3, 40, 0, 0, 1, 1})
	f.Fuzz(func(t *testing.T, in []byte) {
		if len(in) < 3 {
			return
		}
		now := time.Unix(1000, 0)
		o := bounded.Options[byte, byte]{KeepUsed: in[0]&1 > 0, Now: func() time.Time { return now }}
		if in[0]&2 > 0 {
			o.MaxCount = 1 + int(in[1]%8)
		}
		if in[0]&4 > 0 {
			o.MaxBytes = 1 + int64(in[2]%32)
		}
		if in[0]&8 > 0 {
			o.TTL = time.Duration(1+in[2]%16) * time.Second
		}
		want := &model{o: o}
		m := bounded.New(o)
		for in = in[3:]; len(in) >= 3; in = in[3:] {
			key, arg := in[1]%16, in[2]
			switch in[0] % 4 {
			case 0:
				got, expect := m.Put(key, arg, int64(arg%16)), want.put(key, arg, int64(arg%16))
				if got != expect {
					t.Fatalf("Put(%d): %v, want %v", key, got, expect)
				}
			case 1:
				v, ok := m.Get(key)
				i := want.find(key)
				if ok != (i >= 0) || ok && v != want.list[i].value {
					t.Fatalf("Get(%d): %d, %v; the model has it at %d", key, v, ok, i)
				}
				if ok && o.KeepUsed {
					e := want.list[i]
					want.drop(i)
					want.list = append(want.list, e)
				}
			case 2:
				_, ok := m.Take(key)
				i := want.find(key)
				if ok != (i >= 0) {
					t.Fatalf("Take(%d): %v", key, ok)
				}
				if ok {
					want.drop(i)
				}
			case 3:
				now = now.Add(time.Duration(arg%8) * time.Second)
			}
			want.find(0)
			if m.Len() != len(want.list) {
				t.Fatalf("%d entries, want %d", m.Len(), len(want.list))
			}
		}
		m.Clear()
		if m.Len() != 0 {
			t.Fatalf("%d entries are left", m.Len())
		}
	})
}

func TestConcurrentUse(t *testing.T) {
	m := bounded.New(bounded.Options[int, int]{MaxCount: 10, TTL: time.Millisecond, KeepUsed: true})
	var all sync.WaitGroup
	for n := range 8 {
		all.Go(func() {
			for i := range 500 {
				m.Put(i%20, n, 1)
				m.Get(i % 7)
				m.Take(i % 11)
				if m.Len() > 10 {
					t.Error("over the bound")
				}
			}
		})
	}
	all.Wait()
}

func ExampleMap() {
	m := bounded.New(bounded.Options[string, string]{MaxCount: 2, KeepUsed: true})
	m.Put("a", "first", 0)
	m.Put("b", "second", 0)
	m.Get("a")
	m.Put("c", "third", 0) // b was not used for the longest time
	_, ok := m.Get("b")
	fmt.Println(m.Len(), ok)
	// Output: 2 false
}
