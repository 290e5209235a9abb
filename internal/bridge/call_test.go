package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/jsonrpc"
)

// peerFunc is a Peer that answers calls.
type peerFunc func(ctx context.Context, method string, params json.RawMessage, back mcp.Handler) (json.RawMessage, error)

func (f peerFunc) Call(ctx context.Context, method string, params json.RawMessage, back mcp.Handler) (json.RawMessage, error) {
	return f(ctx, method, params, back)
}

func (f peerFunc) Notify(context.Context, string, json.RawMessage) error { return nil }

// legacy is a request of a legacy agent that answers with answers.
func legacy(answers peerFunc) *mcp.Request {
	return &mcp.Request{ID: "1", Method: "tools/call", Version: mcp.V20251125, Session: mcp.NewSession("", "ann"), Peer: answers}
}

// asking server: so many rounds of two questions, then the answers of the last.
func askingServer(t *testing.T, rounds int) peerFunc {
	round := 0
	return func(_ context.Context, _ string, params json.RawMessage, _ mcp.Handler) (json.RawMessage, error) {
		if round > 0 {
			if got := rawjson.Text(rawjson.Get(params, "requestState")); got != fmt.Sprint("s", round) {
				t.Errorf("round %d came with the state %q", round, got)
			}
		}
		if string(rawjson.Get(params, "name")) != `"t"` {
			t.Errorf("params were lost: %s", params)
		}
		if round == rounds {
			return rawjson.Set(nil, "answers", rawjson.Get(params, "inputResponses"))
		}
		round++
		return fmt.Appendf(nil, `{"resultType":"input_required","inputRequests":{"b":{"method":"roots/list"},"a":{"method":"elicitation/create","params":{"n":%d}}},"requestState":"s%d"}`, round, round), nil
	}
}

func TestCallRounds(t *testing.T) {
	var mu sync.Mutex
	asked := map[string]int{}
	b := &Back{Server: `upstream "x"`, Request: legacy(func(_ context.Context, method string, params json.RawMessage, _ mcp.Handler) (json.RawMessage, error) {
		mu.Lock()
		defer mu.Unlock()
		asked[method]++
		if method == methodRoots {
			return json.RawMessage(`{"roots":[]}`), nil
		}
		return json.RawMessage(`{"action":"accept","content":` + string(params) + `}`), nil
	})}
	result, err := Call(t.Context(), askingServer(t, 12), "tools/call", json.RawMessage(`{"name":"t"}`), b)
	if want := `{"answers":{"b":{"roots":[]},"a":{"action":"accept","content":{"n":12}}}}`; err != nil || string(result) != want {
		t.Fatalf("%s %v, want %s", result, err, want)
	}
	if asked[methodRoots] != 12 || asked[methodElicit] != 12 || !b.Asked() {
		t.Errorf("asked %v", asked)
	}
}

// A legacy agent is asked only what it declared in its handshake that it answers.
func TestBackAsksWhatTheClientDeclares(t *testing.T) {
	for _, c := range []struct {
		capabilities, method, params string
		missing                      string // "" where the client is asked
	}{
		{`{}`, methodElicit, `{}`, `"elicitation"`},
		{``, methodSample, `{}`, `"sampling"`},
		{`{"sampling":{}}`, methodRoots, ``, `"roots"`},
		{`{"sampling":{}}`, methodSample, `{}`, ``},
		{`{"elicitation":{}}`, methodElicit, `{"message":"?"}`, ``},
		{`{"elicitation":{}}`, methodElicit, `{"mode":"url"}`, `"elicitation.url"`},
		{`{"elicitation":{"url":{}}}`, methodElicit, `{"mode":"url"}`, ``},
		{`{}`, "future/ask", `{}`, ``},
	} {
		asked := false
		r := legacy(func(context.Context, string, json.RawMessage, mcp.Handler) (json.RawMessage, error) {
			asked = true
			return json.RawMessage(`{}`), nil
		})
		r.Session.SetVersion(mcp.V20251125)
		r.Session.SetClient(nil, json.RawMessage(c.capabilities))
		b := &Back{Request: r, Server: `upstream "x"`}
		_, err := b.Serve(t.Context(), &mcp.Request{ID: "7", Method: c.method, Params: json.RawMessage(c.params), Session: mcp.NewSession("", ""), Peer: mcp.NoPeer})
		switch k, _ := mcp.KindOf(err); {
		case c.missing == "" && (err != nil || !asked):
			t.Errorf("%s of %s: asked %t, %v", c.method, c.capabilities, asked, err)
		case c.missing != "" && (asked || k != mcp.KindMissingCapability || !strings.Contains(err.Error(), c.missing) || !strings.Contains(err.Error(), `upstream "x"`)):
			t.Errorf("%s of %s: asked %t, %v", c.method, c.capabilities, asked, err)
		}
	}
}

// A resource that is not there is -32002 before 2026-07-28, and -32602 since then.
func TestMissingResource(t *testing.T) {
	for _, c := range []struct {
		version, method string
		code            int
	}{
		{mcp.V20260728, "resources/read", -32602},
		{mcp.V20251125, "resources/read", -32002},
		{mcp.V20260728, "tools/call", -32002},
	} {
		r := legacy(nil)
		r.Version = c.version
		server := peerFunc(func(context.Context, string, json.RawMessage, mcp.Handler) (json.RawMessage, error) {
			return nil, jsonrpc.ParseError([]byte(`{"code":-32002,"message":"no a:b","data":{"uri":"a:b"}}`))
		})
		_, err := Call(t.Context(), server, c.method, json.RawMessage(`{"uri":"a:b"}`), &Back{Request: r})
		want := fmt.Sprintf(`{"code":%d,"message":"no a:b","data":{"uri":"a:b"}}`, c.code)
		if got := mcp.WireError(err, c.version).Append(nil); string(got) != want {
			t.Errorf("%s of %s: %s, want %s", c.method, c.version, got, want)
		}
	}
}

func TestCallPasses(t *testing.T) {
	modern := legacy(nil)
	modern.Version = mcp.V20260728
	for name, c := range map[string]struct {
		r      *mcp.Request
		method string
	}{
		"a modern agent":                {modern, "tools/call"},
		"what may not ask (2026-07-28)": {legacy(nil), "tools/list"},
	} {
		result, err := Call(t.Context(), askingServer(t, 1), c.method, json.RawMessage(`{"name":"t"}`), &Back{Request: c.r})
		if err != nil || !IsInputRequired(result) {
			t.Errorf("%s: %s %v", name, result, err)
		}
	}
}

// A modern agent that weir has asked something itself is in weir's own rounds:
// the server's become part of them.
func TestCallWithinRounds(t *testing.T) {
	x := NewRounds(Options{})
	defer x.Close()
	server := askingServer(t, 2)
	a := newAgent(t, x, func(ctx context.Context, r *mcp.Request) (json.RawMessage, error) {
		if _, err := r.Peer.Call(ctx, methodElicit, json.RawMessage(`{"message":"approve?"}`), nil); err != nil {
			return nil, err
		}
		return Call(ctx, server, "tools/call", r.Params, &Back{Request: r})
	})
	a.caps = bothCaps
	result, err := a.call(t.Context(), "")
	for range 10 {
		if err != nil || !IsInputRequired(result) {
			break
		}
		var parts []string
		_ = rawjson.EachMember(rawjson.Get(result, "inputRequests"), func(m rawjson.Member) bool {
			parts = append(parts, fmt.Sprintf(`%q:{"for":%s}`, m.Key, rawjson.Get(m.Value, "method")))
			return true
		})
		result, err = a.call(t.Context(), answer(t, result, "{"+strings.Join(parts, ",")+"}"))
	}
	if want := `{"answers":{"b":{"for":"roots/list"},"a":{"for":"elicitation/create"}}}`; err != nil || string(result) != want {
		t.Errorf("%s %v", result, err)
	}
}

func TestCallFailures(t *testing.T) {
	refuse := legacy(func(context.Context, string, json.RawMessage, mcp.Handler) (json.RawMessage, error) {
		return nil, &jsonrpc.Error{Code: -1, Message: "User rejected sampling request"}
	})
	say := func(result string) peerFunc {
		return func(context.Context, string, json.RawMessage, mcp.Handler) (json.RawMessage, error) {
			return json.RawMessage(result), nil
		}
	}
	ask := func(requests string) peerFunc {
		return say(`{"resultType":"input_required","inputRequests":` + requests + `}`)
	}
	var wire *jsonrpc.Error
	_, err := Call(t.Context(), ask(`{"a":{"method":"sampling/createMessage"}}`), "tools/call", nil, &Back{Server: `upstream "x"`, Request: refuse})
	if !errors.As(err, &wire) || wire.Code != -1 || !strings.Contains(wire.Message, "User rejected") || !strings.Contains(wire.Message, `upstream "x"`) {
		t.Errorf("an agent that refuses: %v", err)
	}
	many := strings.TrimSuffix(strings.Repeat(`"k":{"method":"roots/list"},`, maxQuestions+1), ",")
	for name, p := range map[string]peerFunc{
		"requests that are no object": ask(`[1]`),
		"a question of no version":    ask(`{"a":{"method":"tools/call"}}`),
		"too many questions":          ask("{" + many + "}"),
		"a state twice":               say(`{"resultType":"input_required","requestState":"a","requestState":"b"}`),
	} {
		if _, err := Call(t.Context(), p, "tools/call", nil, &Back{Request: refuse}); kindOf(err) != mcp.KindUpstreamProtocol {
			t.Errorf("%s: %v", name, err)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		busy := peerFunc(func(context.Context, string, json.RawMessage, mcp.Handler) (json.RawMessage, error) {
			if calls++; calls == 4 {
				return json.RawMessage(`{"done":true}`), nil
			}
			return json.RawMessage(`{"resultType":"input_required","requestState":"later"}`), nil
		})
		start := time.Now()
		result, err := Call(t.Context(), busy, "tools/call", nil, &Back{Request: refuse})
		if err != nil || string(result) != `{"done":true}` || time.Since(start) != 350*time.Millisecond {
			t.Errorf("load shedding: %s %v after %v", result, err, time.Since(start))
		}
		_, err = Call(t.Context(), say(`{"resultType":"input_required","requestState":"later"}`), "tools/call", nil, &Back{Request: refuse})
		if kindOf(err) != mcp.KindUpstreamUnavailable {
			t.Errorf("it is put off for ever: %v", err)
		}
	})
	endless := legacy(func(context.Context, string, json.RawMessage, mcp.Handler) (json.RawMessage, error) { return nil, nil })
	if _, err := Call(t.Context(), ask(`{"a":{"method":"roots/list"}}`), "tools/call", nil, &Back{Request: endless}); kindOf(err) != mcp.KindUpstreamProtocol {
		t.Errorf("it asks for ever: %v", err)
	}
}

func TestBack(t *testing.T) {
	var heard []string
	r := legacy(nil)
	r.Peer = notifyFunc(func(method string, params json.RawMessage) { heard = append(heard, method+" "+string(params)) })
	b := &Back{Request: r, Server: `upstream "x"`, Level: "warning", Subscription: "7"}
	tell := func(method, params string) {
		if _, err := b.Serve(t.Context(), &mcp.Request{Method: method, Params: json.RawMessage(params)}); err != nil {
			t.Error(err)
		}
	}
	tell("notifications/message", `{"level":"info"}`)
	tell("notifications/message", `{"level":"error"}`)
	tell("notifications/x", `{}`)
	want := []string{
		`notifications/message {"level":"error","_meta":{"io.modelcontextprotocol/subscriptionId":7}}`,
		`notifications/x {"_meta":{"io.modelcontextprotocol/subscriptionId":7}}`,
	}
	if fmt.Sprint(heard) != fmt.Sprint(want) || b.Asked() {
		t.Errorf("%q", heard)
	}
	r.Peer = mcp.NoPeer
	_, err := b.Serve(t.Context(), &mcp.Request{ID: "1", Method: methodSample, Peer: mcp.NoPeer})
	if kindOf(err) != mcp.KindNoBackChannel || !strings.Contains(err.Error(), `upstream "x" asked for sampling/createMessage`) || !b.Asked() {
		t.Errorf("%v", err)
	}
}

// notifyFunc is a Peer that is told.
type notifyFunc func(method string, params json.RawMessage)

func (f notifyFunc) Call(context.Context, string, json.RawMessage, mcp.Handler) (json.RawMessage, error) {
	return nil, errors.New("asked")
}

func (f notifyFunc) Notify(_ context.Context, method string, params json.RawMessage) error {
	f(method, params)
	return nil
}
