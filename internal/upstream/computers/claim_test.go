package computers

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/office/member"
	"github.com/weir-mcp/weir/internal/ownership"
	"github.com/weir-mcp/weir/internal/upstream"
	"github.com/weir-mcp/weir/smcp"
	"github.com/weir-mcp/weir/smcp/agent"
	"github.com/weir-mcp/weir/smcp/hub"
	"github.com/weir-mcp/weir/socketio"
)

// census are Upstreams that remember which Computers have had which names.
type census struct {
	mu   sync.Mutex // guards below
	now  map[string]string
	ever map[string]map[string]bool // by name and namespace
}

func (c *census) Attach(s *config.Server, _ upstream.Open) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.now[s.Name] != "" {
		return fmt.Errorf("%q is taken", s.Name)
	}
	c.now[s.Name] = s.Tags[0]
	for _, name := range []string{"name " + ownership.Fold(s.Name), "namespace " + s.Namespace} {
		if c.ever[name] == nil {
			c.ever[name] = map[string]bool{}
		}
		c.ever[name][s.Tags[0]] = true
	}
	return nil
}

func (c *census) Detach(name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.now, name)
	return true
}

func (c *census) Attached(name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now[name] != ""
}

func (c *census) has(computer string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, of := range c.now {
		if of == computer {
			return true
		}
	}
	return false
}

// Computers whose names or servers' names meet come and go at once, and agents want
// the names as well: each name, and each namespace, only ever has one owner.
func TestNamesHaveOneOwner(t *testing.T) {
	h := hub.New(hub.Options{})
	server := httptest.NewServer(h)
	defer server.Close()
	defer func() { _ = h.Shutdown(context.Background()) }()
	c := &census{now: map[string]string{}, ever: map[string]map[string]bool{}}
	ledger := new(ownership.Ledger)
	f, err := New(Options{Agent: agent.Options{URL: server.URL, Office: "o"}, Each: c, Whole: &census{now: map[string]string{}, ever: map[string]map[string]bool{}}, Names: ledger})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Start(); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for _, name := range []string{"desk", "Desk", " desk", "desk-excel", "desk.excel", "a b", "a_b"} {
		all.Go(func() {
			for range 4 {
				m, err := member.New(member.Options{URL: server.URL, Role: smcp.RoleComputer, Name: name, Office: "o"})
				if err != nil {
					t.Error(err)
					return
				}
				m.OnConcurrent(smcp.EventGetTools, func(e *socketio.Event) {
					_ = e.Ack(json.RawMessage(`{"tools":[{"name":"t","bundle_id":"excel","params_schema":{}},{"name":"u","bundle_id":"x","params_schema":{}}],"req_id":"r"}`))
				})
				if err := m.Start(t.Context()); err != nil {
					t.Errorf("%q: %v", name, err)
				}
				// Until it has servers here, or is told of why not.
				for end := time.Now().Add(30 * time.Second); !c.has(name) && !strings.Contains(fmt.Sprint(f.Findings()), fmt.Sprintf("Computer %q", name)); time.Sleep(time.Millisecond) {
					if time.Now().After(end) {
						t.Errorf("%q: nothing has come of it", name)
						break
					}
				}
				_ = m.Close()
			}
		})
	}
	agents := map[string]bool{}
	all.Go(func() {
		for range 200 {
			for _, name := range []string{"desk-excel", "DESK-X", "a_b-x"} {
				o := ownership.Owner{Kind: ownership.Agent, ID: "ann", Name: name}
				if ledger.Claim(o, ownership.Want{Names: []string{name}}) == nil {
					agents["name "+ownership.Fold(name)] = true
				}
			}
			runtime.Gosched()
		}
	})
	all.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, computers := range c.ever {
		if len(computers) != 1 || agents[name] {
			t.Errorf("%s has belonged to the Computers %v, and to an agent: %t", name, computers, agents[name])
		}
	}
}
