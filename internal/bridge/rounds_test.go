package bridge

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-mcp/weir/internal/identity"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/jsonrpc"
)

// bothCaps is what a client declares that answers forms, samples and roots.
const bothCaps = `{"sampling":{},"elicitation":{"form":{}},"roots":{}}`

// agent is a modern agent at the front of a Handler.
type agent struct {
	t       *testing.T
	handler mcp.Handler
	session *mcp.Session
	caps    string

	mu    sync.Mutex // guards heard
	heard []string
}

func (a *agent) Call(context.Context, string, json.RawMessage, mcp.Handler) (json.RawMessage, error) {
	a.t.Error("a modern agent was sent a request")
	return nil, errors.New("no")
}

func (a *agent) Notify(_ context.Context, method string, params json.RawMessage) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.heard = append(a.heard, method+" "+string(params))
	return nil
}

func (a *agent) notices() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.heard
}

// call makes a tools/call with further members of the params.
func (a *agent) call(ctx context.Context, more string) (json.RawMessage, error) {
	return a.request(ctx, "tools/call", `"name":"t","arguments":{"a":1,"b":2}`+more)
}

func (a *agent) request(ctx context.Context, method, members string) (json.RawMessage, error) {
	params := fmt.Sprintf(`{%s,"_meta":{%q:%q,%q:%s,"progressToken":"p"}}`, members, mcp.MetaVersion, mcp.V20260728, mcp.MetaClientCapabilities, a.caps)
	return a.handler.Serve(ctx, &mcp.Request{ID: "1", Method: method, Params: json.RawMessage(params), Version: mcp.V20260728, Session: a.session, Peer: a})
}

// answer is what an agent adds to its params for the next round.
func answer(t *testing.T, result json.RawMessage, answers string) string {
	t.Helper()
	if !IsInputRequired(result) {
		t.Fatalf("no questions: %s", result)
	}
	return `,"requestState":` + string(rawjson.Get(result, "requestState")) + `,"inputResponses":` + answers
}

// behind returns h behind x.
func behind(x *Rounds, h mcp.Handler) mcp.Handler {
	return mcp.HandlerFunc(func(ctx context.Context, r *mcp.Request) (json.RawMessage, error) { return x.Serve(ctx, r, h) })
}

func newAgent(t *testing.T, x *Rounds, h mcp.HandlerFunc) *agent {
	return &agent{t: t, handler: behind(x, h), session: mcp.NewSession("", "ann"), caps: bothCaps}
}

func kindOf(err error) mcp.Kind {
	k, _ := mcp.KindOf(err)
	return k
}

// asks is a Handler that asks for a name so many times and returns the answers.
func asks(rounds int) mcp.HandlerFunc {
	return func(ctx context.Context, r *mcp.Request) (json.RawMessage, error) {
		var out []string
		for i := range rounds {
			if err := r.Peer.Notify(ctx, "notifications/progress", fmt.Appendf(nil, `{"progressToken":"old","progress":%d}`, i)); err != nil {
				return nil, err
			}
			a, err := r.Peer.Call(ctx, methodElicit, json.RawMessage(`{"message":"name?"}`), nil)
			if err != nil {
				return nil, err
			}
			out = append(out, rawjson.Text(rawjson.Get(a, "name")))
		}
		return rawjson.Set(nil, "names", rawjson.Quote(strings.Join(out, " ")))
	}
}

func TestRounds(t *testing.T) {
	x := NewRounds(Options{})
	defer x.Close()
	a := newAgent(t, x, asks(3))
	result, err := a.call(t.Context(), "")
	for i := 1; i <= 3; i++ {
		if err != nil {
			t.Fatal(err)
		}
		want := fmt.Sprintf(`{"ask-%d":{"method":"elicitation/create","params":{"message":"name?"}}}`, i)
		if got := string(rawjson.Get(result, "inputRequests")); got != want {
			t.Fatalf("round %d: %s, want %s", i, got, want)
		}
		if n, size := x.Parked(); n != 1 || size < parkedSize {
			t.Fatalf("round %d: %d parked with %d bytes", i, n, size)
		}
		// The arguments are the same in another order.
		more := answer(t, result, fmt.Sprintf(`{"ask-%d":{"name":"n%d"}}`, i, i))
		result, err = a.request(t.Context(), "tools/call", `"arguments":{"b": 2, "a":1},"name":"t"`+more)
	}
	if err != nil || string(result) != `{"names":"n1 n2 n3"}` {
		t.Fatalf("%s %v", result, err)
	}
	if n, size := x.Parked(); n != 0 || size != 0 {
		t.Errorf("%d parked with %d bytes after the end", n, size)
	}
	for i, got := range a.notices() {
		if want := fmt.Sprintf(`notifications/progress {"progressToken":"p","progress":%d}`, i); got != want {
			t.Errorf("progress %q, want %q", got, want)
		}
	}
	if len(a.notices()) != 3 {
		t.Errorf("heard %q", a.notices())
	}
}

// What an agent leaves unanswered is asked again, and what two ask at once goes
// out together.
func TestRoundsSeveralQuestions(t *testing.T) {
	x := NewRounds(Options{})
	defer x.Close()
	both := make(chan struct{}, 2)
	a := newAgent(t, x, func(ctx context.Context, r *mcp.Request) (json.RawMessage, error) {
		var all sync.WaitGroup
		answers := make([]json.RawMessage, 2)
		for i, method := range []string{methodSample, methodRoots} {
			all.Go(func() { answers[i], _ = r.Peer.Call(ctx, method, nil, nil) })
		}
		all.Wait()
		both <- struct{}{}
		return json.RawMessage(`{"a":` + string(answers[0]) + `,"b":` + string(answers[1]) + `}`), nil
	})
	result, err := a.call(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	// Whichever came first was asked; nothing is answered until both are known.
	given := map[string]string{}
	for range 100_000 {
		if !IsInputRequired(result) {
			break
		}
		_ = rawjson.EachMember(rawjson.Get(result, "inputRequests"), func(m rawjson.Member) bool {
			given[string(m.Key)] = rawjson.Text(rawjson.Get(m.Value, "method"))
			return true
		})
		answers := "{}"
		if len(given) == 2 {
			parts := []string{}
			for key, method := range given {
				parts = append(parts, fmt.Sprintf(`%q:{"m":%q}`, key, method))
			}
			answers = "{" + strings.Join(parts, ",") + "}"
		}
		if result, err = a.call(t.Context(), answer(t, result, answers)); err != nil {
			t.Fatal(err)
		}
	}
	<-both
	if string(result) != `{"a":{"m":"sampling/createMessage"},"b":{"m":"roots/list"}}` {
		t.Errorf("%s", result)
	}
}

func TestRoundsSeal(t *testing.T) {
	x, other := NewRounds(Options{}), NewRounds(Options{})
	defer x.Close()
	defer other.Close()
	a := newAgent(t, x, asks(1))
	result, err := a.call(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	more := answer(t, result, `{"ask-1":{"name":"n"}}`)
	profile := identity.WithRoute(t.Context(), identity.Route{Profile: "docs"})
	inside, err := a.call(profile, "")
	if err != nil {
		t.Fatal(err)
	}
	state := rawjson.Text(rawjson.Get(result, "requestState"))
	flip := func(at int) string {
		b := []byte(state)
		b[at] ^= 1
		return string(b)
	}
	eve := newAgent(t, x, asks(1))
	eve.session = mcp.NewSession("", "eve")
	for name, try := range map[string]func() (json.RawMessage, error){
		"another principal": func() (json.RawMessage, error) { return eve.call(t.Context(), more) },
		"another profile": func() (json.RawMessage, error) {
			return a.call(identity.WithRoute(t.Context(), identity.Route{Profile: "other"}), more)
		},
		"outside of its profile": func() (json.RawMessage, error) {
			return a.call(t.Context(), answer(t, inside, `{"ask-1":{"name":"n"}}`))
		},
		"other arguments": func() (json.RawMessage, error) {
			return a.request(t.Context(), "tools/call", `"name":"t","arguments":{"a":1,"b":3}`+more)
		},
		"another tool": func() (json.RawMessage, error) {
			return a.request(t.Context(), "tools/call", `"name":"u","arguments":{"a":1,"b":2}`+more)
		},
		"another method": func() (json.RawMessage, error) {
			return a.request(t.Context(), "prompts/get", `"name":"t","arguments":{"a":1,"b":2}`+more)
		},
		"a name twice": func() (json.RawMessage, error) {
			return a.request(t.Context(), "tools/call", `"name":"t","name":"t","arguments":{"a":1,"b":2}`+more)
		},
		"no MAC": func() (json.RawMessage, error) {
			return a.call(t.Context(), strings.Replace(more, state, state[:strings.LastIndexByte(state, '.')+1], 1))
		},
		"a changed MAC": func() (json.RawMessage, error) {
			return a.call(t.Context(), strings.Replace(more, state, flip(len(state)-2), 1))
		},
		"a changed payload": func() (json.RawMessage, error) { return a.call(t.Context(), strings.Replace(more, state, flip(25), 1)) },
		"no object":         func() (json.RawMessage, error) { return a.call(t.Context(), answer(t, result, `{"ask-1":"n"}`)) },
	} {
		if out, err := try(); kindOf(err) != mcp.KindInvalidParams {
			t.Errorf("%s: %s %v", name, out, err)
		}
	}
	// A state of another weir is for that one.
	passed := false
	next := newAgent(t, other, func(context.Context, *mcp.Request) (json.RawMessage, error) {
		passed = true
		return json.RawMessage("{}"), nil
	})
	if _, err := next.call(t.Context(), more); err != nil || !passed {
		t.Errorf("a state of another process: passed %v, %v", passed, err)
	}
	// None of that has used them up, and each works once.
	if out, err := a.call(profile, answer(t, inside, `{"ask-1":{"name":"n"}}`)); err != nil || string(out) != `{"names":"n"}` {
		t.Errorf("at its profile: %s %v", out, err)
	}
	if out, err := a.call(t.Context(), more); err != nil || string(out) != `{"names":"n"}` {
		t.Errorf("%s %v", out, err)
	}
	if _, err := a.call(t.Context(), more); kindOf(err) != mcp.KindInvalidParams {
		t.Errorf("a second time: %v", err)
	}
}

// TestRoundsOfAnOlderKey: a state that a node has given under one key of its cluster opens at that node when the key
// has changed, in either order, and stays a state of the cluster at nodes that have both.
func TestRoundsOfAnOlderKey(t *testing.T) {
	one, two := bytes.Repeat([]byte{1}, 32), bytes.Repeat([]byte{2}, 32)
	inc := func() string { return "aaaaaa" }
	nodes := &Nodes{Inc: inc, Keys: [][]byte{one}}
	x := NewRounds(Options{Nodes: nodes})
	defer x.Close()
	a := newAgent(t, x, asks(1))
	result, err := a.call(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	more := answer(t, result, `{"ask-1":{"name":"n"}}`)
	for what, keys := range map[string][][]byte{"the former key": {two, one}, "the next key": {one, two}} {
		rolled := NewRounds(Options{Nodes: &Nodes{Inc: func() string { return "bbbbbb" }, Keys: keys}})
		defer rolled.Close()
		b := newAgent(t, rolled, asks(1))
		if out, err := b.call(t.Context(), more); kindOf(err) != mcp.KindInvalidParams || !strings.Contains(err.Error(), "is gone") {
			t.Errorf("%s, at a node that does not have the call: %s %v", what, out, err)
		}
	}
	x.seal = newSealer(&Nodes{Inc: inc, Keys: [][]byte{two, one}})
	if out, err := a.call(t.Context(), more); err != nil || string(out) != `{"names":"n"}` {
		t.Errorf("after the key has changed: %s %v", out, err)
	}
	if state := x.seal.begin(); strings.HasPrefix(rawjson.Text(rawjson.Get(result, "requestState")), state) {
		t.Error("new states are of the former key")
	}
	stranger := NewRounds(Options{Nodes: &Nodes{Inc: inc, Keys: [][]byte{two}}})
	defer stranger.Close()
	if stranger.seal.owns(rawjson.Text(rawjson.Get(result, "requestState"))) {
		t.Error("a state of another key counts as one of the cluster")
	}
}

func TestRoundsAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := NewRounds(Options{MaxAge: time.Minute})
		defer x.Close()
		cancelled := make(chan error, 1)
		a := newAgent(t, x, func(ctx context.Context, r *mcp.Request) (json.RawMessage, error) {
			_, err := r.Peer.Call(ctx, methodElicit, nil, nil)
			cancelled <- context.Cause(ctx)
			return nil, err
		})
		result, err := a.call(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(59 * time.Second)
		synctest.Wait()
		if len(cancelled) != 0 {
			t.Fatal("cancelled too early")
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if k := kindOf(<-cancelled); k != mcp.KindUpstreamTimeout {
			t.Errorf("cause %v", k)
		}
		if n, size := x.Parked(); n != 0 || size != 0 {
			t.Errorf("%d parked, %d bytes", n, size)
		}
		if _, err := a.call(t.Context(), answer(t, result, `{"ask-1":{}}`)); kindOf(err) != mcp.KindInvalidParams || !strings.Contains(err.Error(), "too late") {
			t.Errorf("%v", err)
		}
	})
}

func TestRoundsBounds(t *testing.T) {
	for name, o := range map[string]Options{
		"calls":     {MaxParked: 2},
		"principal": {MaxPrincipal: 2},
		"bytes":     {MaxBytes: 2*parkedSize + 1000},
	} {
		t.Run(name, func(t *testing.T) {
			x := NewRounds(o)
			defer x.Close()
			ended := make(chan error, 3)
			a := newAgent(t, x, func(ctx context.Context, r *mcp.Request) (json.RawMessage, error) {
				out, err := r.Peer.Call(ctx, methodElicit, nil, nil)
				ended <- err
				return out, err
			})
			var first json.RawMessage
			for i := range 2 {
				result, err := a.call(t.Context(), "")
				if err != nil || !IsInputRequired(result) {
					t.Fatalf("%d: %s %v", i, result, err)
				}
				first = result
			}
			if _, err := a.call(t.Context(), ""); kindOf(err) != mcp.KindOverloaded {
				t.Fatalf("over the bound: %v", err)
			}
			if err := <-ended; err == nil {
				t.Error("the call over the bound was not cancelled")
			}
			if out, err := a.call(t.Context(), answer(t, first, `{"ask-1":{"ok":1}}`)); err != nil || string(out) != `{"ok":1}` {
				t.Errorf("one within it: %s %v", out, err)
			}
			if result, err := a.call(t.Context(), ""); err != nil || !IsInputRequired(result) {
				t.Errorf("there is room again: %s %v", result, err)
			}
		})
	}
}

// The agent goes away while the Handler works: the call is cancelled. While it
// is parked, nobody is there to go away.
func TestRoundsCancellation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := NewRounds(Options{})
		defer x.Close()
		a := newAgent(t, x, func(ctx context.Context, r *mcp.Request) (json.RawMessage, error) {
			if _, err := r.Peer.Call(ctx, methodElicit, nil, nil); err != nil {
				return nil, err
			}
			<-ctx.Done()
			return nil, ctx.Err()
		})
		ctx, cancel := context.WithCancel(t.Context())
		result, err := a.call(ctx, "")
		if err != nil {
			t.Fatal(err)
		}
		cancel() // of a request that was answered
		synctest.Wait()
		if n, _ := x.Parked(); n != 1 {
			t.Fatal("not parked")
		}
		ctx, cancel = context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		if _, err := a.call(ctx, answer(t, result, `{"ask-1":{}}`)); !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
	})
}

func TestRoundsClose(t *testing.T) {
	x := NewRounds(Options{})
	started := make(chan struct{})
	a := newAgent(t, x, func(ctx context.Context, r *mcp.Request) (json.RawMessage, error) {
		if rawjson.Text(rawjson.Get(r.Params, "name")) == "u" {
			close(started)
			<-ctx.Done()
			return nil, ctx.Err()
		}
		return r.Peer.Call(ctx, methodElicit, nil, nil)
	})
	if result, err := a.call(t.Context(), ""); err != nil || !IsInputRequired(result) {
		t.Fatalf("%s %v", result, err)
	}
	running := make(chan error)
	go func() {
		_, err := a.request(t.Context(), "tools/call", `"name":"u"`)
		running <- err
	}()
	<-started
	x.Close()
	if err := <-running; kindOf(err) != mcp.KindShuttingDown {
		t.Errorf("a running call: %v", err)
	}
	if _, err := a.call(t.Context(), ""); kindOf(err) != mcp.KindShuttingDown {
		t.Errorf("a call after Close: %v", err)
	}
}

func TestRoundsCapabilities(t *testing.T) {
	for _, c := range []struct {
		caps, method, params string
		asked                bool
	}{
		{`{}`, methodElicit, `{}`, false},
		{`{"sampling":{}}`, methodElicit, `{}`, false},
		{`{"elicitation":{}}`, methodElicit, `{}`, true},
		{`{"elicitation":{}}`, methodElicit, `{"mode":"form"}`, true},
		{`{"elicitation":{}}`, methodElicit, `{"mode":"url"}`, false},
		{`{"elicitation":{"url":{}}}`, methodElicit, `{"mode":"url"}`, true},
		{`{"elicitation":{"url":{}}}`, methodElicit, `{"mode":"form"}`, false},
		{`{"sampling":{}}`, methodSample, `{}`, true},
		{`{"roots":{}}`, methodRoots, `{}`, true},
	} {
		x := NewRounds(Options{})
		a := newAgent(t, x, func(ctx context.Context, r *mcp.Request) (json.RawMessage, error) {
			return r.Peer.Call(ctx, c.method, json.RawMessage(c.params), nil)
		})
		a.caps = c.caps
		result, err := a.call(t.Context(), "")
		if asked := err == nil && IsInputRequired(result); asked != c.asked {
			t.Errorf("%+v: %s %v", c, result, err)
		}
		if !c.asked && kindOf(err) != mcp.KindMissingCapability {
			t.Errorf("%+v: %v", c, err)
		}
		x.Close()
	}
}

// A modern agent that cannot be asked is told which capability it is, also where
// a server fails because of it and answers with the code alone.
func TestRoundsNameTheCapability(t *testing.T) {
	for _, c := range []struct{ caps, params, lost, want string }{
		{`{}`, `{}`, `-32021`, `{"elicitation":{}}`},
		{`{"sampling":{}}`, `{}`, `-32021`, `{"elicitation":{}}`},
		{`{"elicitation":{}}`, `{"mode":"url"}`, `-32021`, `{"elicitation":{"url":{}}}`},
		{`{"elicitation":{}}`, `{"mode":"url"}`, ``, `{"elicitation":{"url":{}}}`},
		{`{"sampling":{}}`, `{}`, `-32603`, ``}, // an error of the server's own
	} {
		x := NewRounds(Options{})
		a := newAgent(t, x, func(ctx context.Context, r *mcp.Request) (json.RawMessage, error) {
			_, err := (&Back{Request: r, Server: `upstream "x"`}).ask(ctx, methodElicit, json.RawMessage(c.params), nil)
			if c.lost != "" && err != nil {
				return nil, jsonrpc.ParseError([]byte(`{"code":` + c.lost + `,"message":` + string(rawjson.Quote("asking: "+err.Error())) + `}`))
			}
			return nil, err
		})
		a.caps = c.caps
		_, err := a.call(t.Context(), "")
		sent := mcp.WireError(err, mcp.V20260728).Append(nil)
		if got := string(rawjson.GetPath(sent, "data", "requiredCapabilities")); got != c.want {
			t.Errorf("%+v: %s", c, sent)
		}
		x.Close()
	}
}

// Requests that cannot be answered with questions are served where they are.
func TestRoundsPass(t *testing.T) {
	x := NewRounds(Options{})
	defer x.Close()
	var got *mcp.Request
	h := behind(x, mcp.HandlerFunc(func(_ context.Context, r *mcp.Request) (json.RawMessage, error) {
		got = r
		return nil, nil
	}))
	for _, r := range []*mcp.Request{
		{ID: "1", Method: "tools/list", Version: mcp.V20260728},
		{ID: "1", Method: "tools/call", Version: mcp.V20251125},
		{Method: "tools/call", Version: mcp.V20260728},
		{ID: "1", Method: "tools/call", Version: mcp.V20260728, Params: json.RawMessage(`{"_meta":{},"_meta":{}}`)},
	} {
		if _, err := h.Serve(t.Context(), r); err != nil || got != r {
			t.Errorf("%+v was served as %+v, %v", r, got, err)
		}
	}
}

// TestRoundsHammer runs many agents with many rounds; nobody gets another's
// answer.
func TestRoundsHammer(t *testing.T) {
	x := NewRounds(Options{MaxPrincipal: 1000})
	defer x.Close()
	var all sync.WaitGroup
	for n := range 50 {
		all.Go(func() {
			a := newAgent(t, x, asks(5))
			a.session = mcp.NewSession("", fmt.Sprintf("p%d", n%5))
			result, err := a.call(t.Context(), "")
			for i := 1; i <= 5 && err == nil; i++ {
				result, err = a.call(t.Context(), answer(t, result, fmt.Sprintf(`{"ask-%d":{"name":"%d"}}`, i, n)))
			}
			if want := strings.TrimSpace(strings.Repeat(fmt.Sprintf(" %d", n), 5)); err != nil || rawjson.Text(rawjson.Get(result, "names")) != want {
				t.Errorf("%s %v", result, err)
			}
		})
	}
	all.Wait()
}

// BenchmarkWrap shows what being ready to ask costs a call that asks nothing,
// beside one of a client that cannot be asked.
func BenchmarkWrap(b *testing.B) {
	x := NewRounds(Options{})
	defer x.Close()
	h := behind(x, mcp.HandlerFunc(func(context.Context, *mcp.Request) (json.RawMessage, error) { return json.RawMessage("{}"), nil }))
	session := mcp.NewSession("", "ann")
	run := func(caps string, n int) time.Duration {
		params := fmt.Appendf(nil, `{"name":"t","arguments":{"text":%q},"_meta":{%q:%q,%q:%s}}`, strings.Repeat("x", 100), mcp.MetaVersion, mcp.V20260728, mcp.MetaClientCapabilities, caps)
		start := time.Now()
		for range n {
			if _, err := h.Serve(b.Context(), &mcp.Request{ID: jsonrpc.ID("1"), Method: "tools/call", Params: params, Version: mcp.V20260728, Session: session, Peer: mcp.NoPeer}); err != nil {
				b.Fatal(err)
			}
		}
		return time.Since(start)
	}
	base := run(`{}`, b.N)
	b.ReportAllocs()
	b.ResetTimer()
	b.ReportMetric(float64(run(bothCaps, b.N))/float64(base), "x_baseline")
}

// An answer whose key is empty is one like any other: it counts once, and what
// stands behind it is read.
func TestAnswersByTheEmptyKey(t *testing.T) {
	if given, err := readAnswers(json.RawMessage(`{"":{"action":"accept"},"ask-1":{}}`)); err != nil || len(given) != 2 {
		t.Errorf("%v, %v", given, err)
	}
	for _, raw := range []string{`{"":{},"":{}}`, `{"":7,"ask-1":{}}`} {
		if given, err := readAnswers(json.RawMessage(raw)); err == nil {
			t.Errorf("%s: %v", raw, given)
		}
	}
}

// A person may decline to write a completion: the server gets the error that MCP has for that.
func TestRoundsDeclinedCompletion(t *testing.T) {
	x := NewRounds(Options{})
	defer x.Close()
	a := newAgent(t, x, func(ctx context.Context, r *mcp.Request) (json.RawMessage, error) {
		return r.Peer.Call(ctx, methodSample, json.RawMessage(`{"messages":[],"maxTokens":9}`), nil)
	})
	for given, refused := range map[string]bool{
		`{"action":"decline"}`: true, `{"action":"cancel"}`: true,
		`{"role":"assistant","content":{"type":"text","text":"hi"},"action":"decline"}`: false, `{"role":"assistant"}`: false,
	} {
		result, err := a.call(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		out, err := a.call(t.Context(), answer(t, result, `{"ask-1":`+given+`}`))
		var wire *jsonrpc.Error
		if errors.As(err, &wire) != refused || refused && wire.Code != -1 || !refused && string(out) != given {
			t.Errorf("%s: %s %v", given, out, err)
		}
	}
}

// A client can tell weir's own question from that of a server.
func TestRoundsApproval(t *testing.T) {
	x := NewRounds(Options{})
	defer x.Close()
	a := newAgent(t, x, func(ctx context.Context, r *mcp.Request) (json.RawMessage, error) {
		if _, err := r.Peer.Call(Approval(ctx, ""), methodElicit, json.RawMessage(`{"message":"Allow t?"}`), nil); err != nil {
			return nil, err
		}
		return r.Peer.Call(ctx, methodElicit, json.RawMessage(`{"message":"Allow t?"}`), nil)
	})
	result, err := a.call(t.Context(), "")
	for _, key := range []string{"approve-1", "ask-2"} {
		if err != nil || rawjson.GetPath(result, "inputRequests", key) == nil {
			t.Fatalf("no %s: %s %v", key, result, err)
		}
		result, err = a.call(t.Context(), answer(t, result, `{"`+key+`":{"action":"accept"}}`))
	}
	if err != nil || string(result) != `{"action":"accept"}` {
		t.Errorf("%s %v", result, err)
	}
}
