package metatool

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/catalog/primitive"
)

// manyServers returns a snapshot of servers with 50 tools each.
func manyServers(servers int) *Snapshot {
	s := NewSnapshot(catalog.Limits{})
	for n := range servers {
		s, _ = s.With(serverListing(n, 0))
	}
	return s
}

// serverListing returns what a server lists after so many changes.
func serverListing(server, changes int) primitive.Listing {
	l := primitive.Listing{Upstream: fmt.Sprintf("s%d", server), Namespace: fmt.Sprintf("s%d", server)}
	for n := range 50 {
		l.Tools = append(l.Tools, json.RawMessage(fmt.Sprintf(`{"name":"t%d","description":"number %d of %d"}`, n, n, changes)))
	}
	return l
}

// TestNamesOfOneUpstream: a look for a name reads the entries of its upstream alone.
func TestNamesOfOneUpstream(t *testing.T) {
	s := manyServers(3)
	if e := s.entryAt("s1", primitive.KindTool, "t7"); e == nil || e.Upstream != "s1" || e.RawName != "t7" {
		t.Fatalf("%+v", e)
	}
	if e := s.entryAt("none", primitive.KindTool, "t7"); e != nil {
		t.Errorf("%+v", e)
	}
	if e := s.readsLike(Place{Upstream: "s1"}, primitive.KindTool, "T7"); e == nil || e.RawName != "t7" {
		t.Errorf("T7 reads like %+v", e)
	}
	s.keys.upstreams.Range(func(name, _ any) bool {
		if name != "s1" {
			t.Errorf("the names of %s were made", name)
		}
		return true
	})
}

// BenchmarkNameAfterChange measures the first look for a name after a change of one server's list,
// which every request at /mcps/NAME/mcp makes if the policy has rules.
func BenchmarkNameAfterChange(b *testing.B) {
	for _, servers := range []int{20, 200} {
		b.Run(fmt.Sprintf("%d tools", 50*servers), func(b *testing.B) {
			s := manyServers(servers)
			b.ReportAllocs()
			b.ResetTimer()
			for range b.N {
				b.StopTimer()
				s, _ = s.With(serverListing(1, b.N))
				b.StartTimer()
				if s.entryAt("s0", primitive.KindTool, "t7") == nil {
					b.Fatal("no entry")
				}
			}
		})
	}
}
