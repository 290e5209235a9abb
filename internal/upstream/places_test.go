package upstream

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/weir-mcp/weir/mcp"
)

// herePlaces are Places of which this node has all.
type herePlaces struct {
	mu          sync.Mutex // guards below
	lost, leave chan struct{}
	asked       []string
	released    int
	err         error
}

func (p *herePlaces) Place(_ context.Context, server, principal string) (Place, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked = append(p.asked, server+" "+principal)
	return Place{Lost: p.lost, Leave: p.leave, Release: p.release}, p.err
}

func (p *herePlaces) release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.released++
}

func (p *herePlaces) ended() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.released
}

// modern returns a session of the modern era.
func modern(principal string) *mcp.Session {
	s := mcp.NewSession("", principal)
	StandsForPrincipal(s)
	return s
}

// TestPlaces: sessions that stand for one principal have one program, for as long as this node has its place.
func TestPlaces(t *testing.T) {
	t.Parallel()
	places := &herePlaces{lost: make(chan struct{}), leave: make(chan struct{})}
	cfg := program("memory")
	cfg.PerSession = true
	m, _ := manage(t, Options{Places: places}, cfg)
	ready(t, m)
	u := upstreamOf(t, m, "memory")
	one, other, bob, legacy := modern("ann"), modern("ann"), modern("bob"), agent("ann", "{}")
	for i, s := range []*mcp.Session{one, other, bob, legacy, one} {
		if got, want := callAs(t, u, s, "counter", "{}"), []string{"1", "2", "1", "1", "3"}[i]; got != want {
			t.Errorf("call %d: %s, want %s", i, got, want)
		}
	}
	if len(places.asked) != 2 || places.asked[0] != "memory ann" || places.asked[1] != "memory bob" {
		t.Errorf("the places that were asked for: %q", places.asked)
	}
	one.Close()
	if got := callAs(t, u, other, "counter", "{}"); got != "4" {
		t.Errorf("after the end of a session: %s", got)
	}
	places.mu.Lock()
	lost := places.lost
	places.lost = make(chan struct{})
	places.mu.Unlock()
	close(lost)
	eventually(t, "the programs of both principals end", func() bool { return places.ended() == 2 })
	if got := callAs(t, u, other, "counter", "{}"); got != "1" {
		t.Errorf("after the place was lost: %s", got)
	}
	close(places.leave)
	eventually(t, "the program ends that no call uses", func() bool { return places.ended() == 3 })
	places.mu.Lock()
	places.leave, places.err = nil, errors.New("the store is away")
	places.mu.Unlock()
	_, err := callTool(as(t.Context(), modern("eve")), u, "counter", "{}")
	wantKind(t, err, mcp.KindUpstreamUnavailable)
}
