package computers

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/office/member"
	"github.com/weir-mcp/weir/internal/testkit/leak"
	"github.com/weir-mcp/weir/internal/upstream"
	"github.com/weir-mcp/weir/smcp"
	"github.com/weir-mcp/weir/smcp/agent"
	"github.com/weir-mcp/weir/smcp/hub"
	"github.com/weir-mcp/weir/socketio"
)

func TestMain(m *testing.M) { leak.Main(m) }

func TestDefinition(t *testing.T) {
	for _, test := range []struct{ name, in, want string }{
		{"bare", `{"name":"t","description":"d","params_schema":{"type":"object","x":12345678901234567890},"return_schema":null}`,
			`{"description":"d","inputSchema":{"type":"object","x":12345678901234567890},"name":"t"}`},
		{"no schema", `{"name":"t","description":"","params_schema":null,"return_schema":{"type":"object"}}`,
			`{"inputSchema":{"type":"object"},"name":"t","outputSchema":{"type":"object"}}`},
		{"annotations", `{"name":"t","params_schema":{},"meta":{"MCP_TOOL_ANNOTATION":"{\"title\":null,\"readOnlyHint\":true}","a2c_tool_meta":"{}"}}`,
			`{"_meta":{"a2c_tool_meta":"{}"},"annotations":{"readOnlyHint":true},"inputSchema":{},"name":"t"}`},
		{"broken annotations", `{"name":"t","params_schema":{},"meta":{"MCP_TOOL_ANNOTATION":"{"}}`,
			`{"_meta":{"MCP_TOOL_ANNOTATION":"{"},"inputSchema":{},"name":"t"}`},
	} {
		var tool smcp.Tool
		if err := json.Unmarshal([]byte(test.in), &tool); err != nil {
			t.Fatal(err)
		}
		if got, err := definition(tool); err != nil || string(got) != test.want {
			t.Errorf("%s: %s, %v; want %s", test.name, got, err, test.want)
		}
	}
}

func TestBundles(t *testing.T) {
	for _, test := range []struct {
		tools []smcp.Tool
		want  []string
	}{
		{nil, nil},
		{[]smcp.Tool{{Name: "a"}}, []string{""}},
		{[]smcp.Tool{{Name: "a", BundleID: "y"}, {Name: "b", BundleID: "x"}, {Name: "c", BundleID: "y"}}, []string{"x", "y"}},
		{[]smcp.Tool{{Name: "a", BundleID: "y"}, {Name: "b"}}, []string{""}},
	} {
		if got := bundles(test.tools); !reflect.DeepEqual(got, test.want) {
			t.Errorf("%v: %v, want %v", test.tools, got, test.want)
		}
	}
}

// hubInMemory runs a hub until the end of a bubble.
func hubInMemory(t *testing.T) *socketio.Local {
	h := hub.New(hub.Options{})
	t.Cleanup(func() {
		if err := h.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return h.Attach()
}

// A Computer that has not answered what it was asked, and says then that it offers
// something else, is asked once more, soon, and that question has all its time.
func TestQuestionThatIsStale(t *testing.T) {
	const thinks = 6 * time.Second
	for name, test := range map[string]struct{ first, then, takes time.Duration }{
		"never answered":   {first: time.Hour, takes: time.Second + retryAfter},
		"answered so late": {first: thinks, then: thinks, takes: time.Second + retryAfter + thinks},
	} {
		for range 10 { // what is ready at the same time is chosen by chance
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					local := hubInMemory(t)
					computer, err := member.New(member.Options{Local: local, Role: smcp.RoleComputer, Name: "slow", Office: "o"})
					if err != nil {
						t.Fatal(err)
					}
					defer computer.Close()
					asked := make(chan time.Time, 10)
					var again atomic.Bool
					computer.OnConcurrent(smcp.EventGetTools, func(e *socketio.Event) {
						asked <- time.Now()
						wait := test.first
						if again.Swap(true) {
							wait = test.then
						}
						select {
						case <-time.After(wait):
							_ = e.Ack(json.RawMessage(`{"tools":[{"name":"t","params_schema":{}}],"req_id":"r"}`))
						case <-t.Context().Done():
						}
					})
					if err := computer.Start(t.Context()); err != nil {
						t.Fatal(err)
					}
					taken := make(signals, 1)
					f, err := New(Options{Agent: agent.Options{Local: local, Office: "o"}, Each: taken})
					if err != nil {
						t.Fatal(err)
					}
					defer f.Close()
					if err := f.Start(); err != nil {
						t.Fatal(err)
					}
					begin := <-asked
					time.Sleep(time.Second)
					if err := computer.Emit(smcp.EventUpdateTools, map[string]string{"computer": "slow"}); err != nil {
						t.Fatal(err)
					}
					if name := <-taken; name != "slow" {
						t.Errorf("%q has arrived", name)
					}
					if took := time.Since(begin); took != test.takes {
						t.Errorf("the tools were there after %s, want %s", took, test.takes)
					}
					time.Sleep(time.Minute)
					if n := len(asked); n != 1 {
						t.Errorf("it was asked %d times more, want once", n)
					}
				})
			})
		}
	}
}

// signals are Upstreams that tell what is attached.
type signals chan string

func (s signals) Attach(c *config.Server, _ upstream.Open) error { s <- c.Name; return nil }
func (s signals) Attached(string) bool                           { return true }

func (s signals) Detach(string) bool { return true }

// names are Upstreams that only know which names are taken.
type names map[string]bool

func (n names) Attach(s *config.Server, _ upstream.Open) error {
	if n[s.Name] {
		return fmt.Errorf("%q is taken", s.Name)
	}
	n[s.Name] = true
	return nil
}

func (n names) Detach(name string) bool {
	was := n[name]
	delete(n, name)
	return was
}

func (n names) Attached(name string) bool { return n[name] }

// The names and paths of a bound Computer's servers are no other's, also while it
// is away; among the others, who came first keeps them. What has no name of its own is
// left out, and said.
func TestBoundNames(t *testing.T) {
	pub, _, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	taken := names{}
	f, err := New(Options{Agent: agent.Options{URL: "http://127.0.0.1:1", Office: "o", Keys: map[string]ed25519.PublicKey{"desk": pub}}, Each: taken})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	hosts := map[string]*computer{}
	attach := func(host, server string) {
		c := hosts[host]
		if c == nil {
			c = newComputer(f, host)
			close(c.done) // it has no goroutine
			hosts[host] = c
		}
		name, path := namesOf(host, server)
		c.attach(server, attached{name: name, route: path}, nil)
		f.mu.Lock()
		f.computers[host] = c
		f.mu.Unlock()
	}
	attach("desk.excel", "")
	attach("desk-excel", "")
	attach("desk", "excel")
	attach("lab", "excel")
	attach("lab.excel", "")
	for path, want := range map[string]string{"desk.excel": "desk-excel", "desk-excel": "", "lab.excel": "lab-excel"} {
		if got, _, _ := f.Resolve(path); got != want {
			t.Errorf("%s is %q, want %q", path, got, want)
		}
	}
	if got, want := slices.Sorted(maps.Keys(taken)), []string{"desk-excel", "lab-excel"}; !slices.Equal(got, want) {
		t.Errorf("upstreams %q, want %q", got, want)
	}
	text := fmt.Sprint(f.Findings())
	for _, part := range []string{`the Computer "desk.excel" as one server is left out`, `belongs to the Computer "desk", which has a key`, `"lab.excel" belongs to the Computer "lab"`, "--name", "name_taken"} {
		if !strings.Contains(text, part) {
			t.Errorf("no %s in the findings: %s", part, text)
		}
	}
	hosts["lab.excel"].detachAll()
	if got, _, _ := f.Resolve("lab.excel"); got != "lab-excel" {
		t.Errorf("the path went with who did not have it: %q", got)
	}
}

// Keys that come while Computers are there: the names are at once those of whom
// they belong to.
func TestSetKeys(t *testing.T) {
	h := hub.New(hub.Options{})
	server := httptest.NewServer(h)
	defer server.Close()
	defer func() { _ = h.Shutdown(context.Background()) }()
	taken := &board{names: map[string]bool{}}
	f, err := New(Options{Agent: agent.Options{URL: server.URL, Office: "o"}, Each: taken})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Start(); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"desk-x", "desk", "lab"} {
		m, err := member.New(member.Options{URL: server.URL, Role: smcp.RoleComputer, Name: name, Office: "o"})
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		tools := `{"tools":[{"name":"t","bundle_id":"x","params_schema":{}}],"req_id":"r"}`
		if name == "desk-x" {
			tools = `{"tools":[{"name":"t","params_schema":{}}],"req_id":"r"}`
		}
		m.OnConcurrent(smcp.EventGetTools, func(e *socketio.Event) { _ = e.Ack(json.RawMessage(tools)) })
		if err := m.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		if name == "desk-x" {
			taken.await(t, "desk-x")
		}
	}
	taken.await(t, "desk-x", "lab-x")
	for end := time.Now().Add(30 * time.Second); len(f.Findings()) == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("nothing is said of what is left out")
		}
	}
	if got, _, ok := f.Resolve("desk.x"); ok {
		t.Errorf("desk.x is %q", got)
	}
	pub, _, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	f.SetKeys(map[string]ed25519.PublicKey{"desk": pub})
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(time.Millisecond) {
		if got, _, _ := f.Resolve("desk.x"); got == "desk-x" {
			break
		} else if time.Now().After(end) {
			t.Fatalf("desk.x is %q with its key", got)
		}
	}
	taken.await(t, "desk-x", "lab-x")
	if got, _, ok := f.Resolve("desk-x"); ok {
		t.Errorf("who has no key has the path of %q", got)
	}
	if n := taken.attached("lab-x"); n != 1 {
		t.Errorf("a Computer that has nothing to do with it was attached %d times", n)
	}
}

// board are Upstreams that know which names are taken.
type board struct {
	mu    sync.Mutex // guards below
	names map[string]bool
	log   []string
}

func (b *board) Attach(s *config.Server, _ upstream.Open) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.names[s.Name] {
		return fmt.Errorf("%q is taken", s.Name)
	}
	b.names[s.Name] = true
	b.log = append(b.log, s.Name)
	return nil
}

func (b *board) Detach(name string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	was := b.names[name]
	delete(b.names, name)
	return was
}

func (b *board) Attached(name string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.names[name]
}

func (b *board) attached(name string) (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range b.log {
		if s == name {
			n++
		}
	}
	return n
}

func (b *board) await(t *testing.T, want ...string) {
	t.Helper()
	var got []string
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		b.mu.Lock()
		got = slices.Sorted(maps.Keys(b.names))
		b.mu.Unlock()
		if slices.Equal(got, want) {
			return
		}
	}
	t.Fatalf("upstreams %q, want %q", got, want)
}

func TestLegalName(t *testing.T) {
	for in, want := range map[string]string{"desk": "desk", "my desk": "my_desk", "-x": "x", "": "computer_" + legalHash(""), "日本": "computer_" + legalHash("日本"), "a/b?c": "a_b_c"} {
		if got := legalName(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

func legalHash(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:4])
}
