package roster

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-mcp/weir/internal/store"
)

// deaf are Events of a hub without members.
type deaf struct{}

func (deaf) Message(*Message) {}
func (deaf) Gone(string)      {}
func (deaf) Fenced(string)    {}
func (deaf) Drained()         {}

// TestSweep: an office whose members were all at nodes that are gone loses them, and its document ends, although
// no hub follows it. Members of nodes that are there stay.
func TestSweep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		docs := store.NewMemory(store.MemoryOptions{})
		revs := map[string]uint64{}
		for _, inc := range []string{"aaaaaa", "bbbbbb", "cccccc"} {
			rev, err := docs.Set(t.Context(), "n."+inc, []byte("{}"), 0, 0)
			if err != nil {
				t.Fatal(err)
			}
			revs[inc] = rev
		}
		s := NewShared(Options{Docs: docs, Bus: store.NewMemoryBus(), Node: alone{}, Name: "test"})
		defer s.Close()
		gen := uint64(0)
		for id, nodes := range map[string][]string{"before": {"dddddd"}, "killed": {"bbbbbb"}, "mixed": {"bbbbbb", "cccccc"}, "kept": {"cccccc"}} {
			for _, inc := range nodes {
				gen++
				m := computer("at-"+inc, inc, gen)
				if _, _, err := s.Change(t.Context(), id, func(o *Office) (bool, error) {
					_, err := o.Join(m, Terms{Max: 10})
					return true, err
				}); err != nil {
					t.Fatal(err)
				}
			}
		}
		if _, err := docs.Set(t.Context(), "o.newer", []byte(`{"v":99}`), 0, 0); err != nil {
			t.Fatal(err)
		}
		members := func(id string, want int) {
			t.Helper()
			if _, o, err := s.Get(t.Context(), id); err != nil || len(o.Computers) != want {
				t.Errorf("the office %s: %v %+v, want %d", id, err, o, want)
			}
		}
		if err := s.Open(deaf{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(sweepDelay + sweepSpread)
		members("before", 0)
		members("killed", 1)
		members("mixed", 2)
		if err := docs.Delete(t.Context(), "n.bbbbbb", revs["bbbbbb"]); err != nil {
			t.Fatal(err)
		}
		time.Sleep(sweepDelay + sweepSpread)
		members("killed", 0)
		members("mixed", 1)
		members("kept", 1)
		time.Sleep(emptyTTL)
		if d, err := docs.Get(t.Context(), keyOf("killed")); err != nil || d.Rev != 0 {
			t.Errorf("the document stays: %v %v", d, err)
		}
	})
}
