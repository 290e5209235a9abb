package agents

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/ownership"
)

// A Registry that remembers who has its name answers as one that asks about every agent at each change, whatever
// comes, leaves and loses its name to the operator.
func TestClaimsAreRemembered(t *testing.T) {
	type one struct {
		r      *Registry
		ledger *ownership.Ledger
		asked  int
	}
	var both [2]*one
	for i := range both {
		o := &one{ledger: new(ownership.Ledger)}
		claim := claimIn(o.ledger)
		opts := Options{Lease: time.Hour, Claim: func(a Agent) error { o.asked++; return claim(a) }}
		if i == 1 {
			opts.Claims = o.ledger.Version
		}
		o.r, both[i] = New(opts), o
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		name, principal, instance := fmt.Sprintf("a%d", random.IntN(12)), fmt.Sprintf("p%d", random.IntN(2)), fmt.Sprint(random.IntN(2))
		body := fmt.Sprintf(`{"name":%q,"instance":%q,"url":"http://10.0.0.7:%d/mcp"}`, name, instance, 1+random.IntN(3))
		what := random.IntN(12)
		routes := []Route{{name, "http://localhost:1/mcp"}, {fmt.Sprintf("r%d", random.IntN(3)), "http://localhost:2/mcp"}}
		var seen [2][]any
		for i, o := range both {
			switch {
			case what == 0:
				o.ledger.Configure(map[string]string{name: "mcpServers." + name}, nil)
			case what == 1:
				o.ledger.Configure(nil, nil)
			case what == 2:
				o.ledger.Bind([]ownership.Binding{{Owner: ownership.Owner{Kind: ownership.Agent, ID: principal, Name: name}, Want: ownership.Want{Names: []string{name}}}})
			case what == 3:
				o.r.SetRoutes(routes)
			case what == 4:
				o.r.SetRoutes(nil)
			case what < 8:
				o.r.leave(principal, name, instance)
			default:
				send(o.r, principal, "POST", "/agents", body)
			}
			agents, barred := o.r.Split()
			for _, a := range agents {
				seen[i] = append(seen[i], a.Name, a.URL, a.Source, a.Principal, a.Instance)
			}
			for _, b := range barred {
				seen[i] = append(seen[i], b.Agent.Name, b.Agent.Source, b.Err.Error())
			}
			if want := slices.Sorted(func(yield func(string) bool) {
				for name := range o.r.leases {
					if !yield(name) {
						return
					}
				}
			}); !slices.Equal(o.r.names, want) {
				t.Fatalf("names %q, want %q", o.r.names, want)
			}
		}
		if !reflect.DeepEqual(seen[0], seen[1]) {
			t.Fatalf("asked each time %v\n  remembered %v", seen[0], seen[1])
		}
	}
	if both[1].asked*3 > both[0].asked*2 {
		t.Errorf("it asked about %d agents, and %d without Claims", both[1].asked, both[0].asked)
	}
}
