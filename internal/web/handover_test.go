package web

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/cluster"
	"github.com/weir-mcp/weir/internal/cluster/sessionid"
	"github.com/weir-mcp/weir/internal/link"
	"github.com/weir-mcp/weir/internal/seal"
	"github.com/weir-mcp/weir/internal/store"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/streamable"
)

// leaver is a node of a cluster with one endpoint. Its tool tell puts n notifications of size bytes into the session,
// and answers with what the node has inherited of the session.
type leaver struct {
	node   *cluster.Node
	server *streamable.Server
	kept   *sessionid.Keeper
	ids    *sessionid.Ids
	front  *httptest.Server
	link   *link.Server
}

func (l *leaver) serve(ctx context.Context, r *mcp.Request) (json.RawMessage, error) {
	var p struct{ N, Size int }
	if r.Method != "tools/call" {
		return json.RawMessage("{}"), nil
	}
	if err := json.Unmarshal(r.Params, &p); err != nil {
		return nil, err
	}
	seen := r.Session.Value(leaver{}, func() any { return new(atomic.Int64) }).(*atomic.Int64)
	left := sessionid.Left(r.Session)
	sessionid.OnLeave(r.Session, func() json.RawMessage { return fmt.Appendf(nil, `{"calls":%d,"before":%q}`, seen.Load(), left) })
	seen.Add(1)
	for i := range p.N {
		note := fmt.Appendf(nil, `{"level":"info","data":"%d %s"}`, i, strings.Repeat("x", p.Size))
		if err := r.Session.Peer().Notify(ctx, "notifications/message", note); err != nil {
			return nil, err
		}
	}
	return json.Marshal(map[string]string{"left": string(left)})
}

// startLeavers starts nodes of a cluster.
func startLeavers(t *testing.T, count int) (all []*leaver, docs *store.Memory) {
	t.Helper()
	docs = store.NewMemory(store.MemoryOptions{})
	bus := store.NewMemoryBus()
	key, err := seal.NewKey(base64.RawURLEncoding.EncodeToString([]byte(strings.Repeat("k", 32))))
	if err != nil {
		t.Fatal(err)
	}
	for i := range count {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		l := &leaver{ids: sessionid.New(key, docs, nil)}
		if l.node, err = cluster.Start(t.Context(), cluster.Options{Docs: docs, Bus: bus, Name: fmt.Sprint("n", i), URL: "http://" + listener.Addr().String()}); err != nil {
			t.Fatal(err)
		}
		l.ids.In(l.node.Inc)
		l.kept = l.ids.At("/mcp").Around(&mcp.Lifecycle{
			ServerInfo: json.RawMessage(`{"name":"t","version":"1"}`), Capabilities: func(*mcp.Request) json.RawMessage { return json.RawMessage(`{"tools":{}}`) }, Next: mcp.HandlerFunc(l.serve),
		}, nil)
		l.server = streamable.NewServer(streamable.ServerOptions{Handler: l.kept, Sessions: l.kept})
		handler := locating(l.node, 1<<20, nil)("/mcp", l.kept, l.server)
		l.link = l.node.Serve(listener, nil, handler)
		l.front = httptest.NewServer(handler)
		t.Cleanup(func() {
			l.end()
			l.front.Close()
		})
		all = append(all, l)
	}
	return all, docs
}

// end ends the node as SIGTERM does.
func (l *leaver) end() {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	cluster.Retire(ctx, l.node)
	_ = l.server.Shutdown(ctx)
	l.link.Shutdown(ctx)
	l.node.Close(ctx)
}

// post makes a request in a session.
func (l *leaver) post(t *testing.T, session, method, params string) (body, made string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, l.front.URL, strings.NewReader(fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":%s}`, method, params)))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	if session != "" {
		r.Header.Set("Mcp-Session-Id", session)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %d %s, %v", method, resp.StatusCode, raw, err)
	}
	return string(raw), resp.Header.Get("Mcp-Session-Id")
}

// notes returns so many notifications from the stream of a session.
func (l *leaver) notes(t *testing.T, session string, count int) (got []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, l.front.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Accept", "text/event-stream")
	r.Header.Set("Mcp-Session-Id", session)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	for len(got) < count && lines.Scan() {
		if data, ok := strings.CutPrefix(lines.Text(), "data: {"); ok {
			got = append(got, data)
		}
	}
	return got
}

const hello = `{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}`

// TestHandOver: what a node knows of a session is at the next node, with the notifications that no stream has carried,
// wherever the next request comes, and after the end of the process.
func TestHandOver(t *testing.T) {
	for name, drain := range map[string]func(first, second *leaver) (next *leaver){
		"the next request comes to the draining node": func(first, _ *leaver) *leaver { cluster.Retire(t.Context(), first.node); return first },
		"the next request comes to another node":      func(first, second *leaver) *leaver { cluster.Retire(t.Context(), first.node); return second },
		"the process ends":                            func(first, second *leaver) *leaver { first.end(); return second },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all, _ := startLeavers(t, 2)
			first, second := all[0], all[1]
			_, session := first.post(t, "", "initialize", hello)
			if n := first.ids.Open(); n != 1 {
				t.Errorf("%d sessions are open after the handshake", n)
			}
			first.post(t, session, "tools/call", `{"n":2}`)
			next := drain(first, second)
			answer, _ := next.post(t, session, "tools/call", `{"n":1}`)
			if !strings.Contains(answer, `calls\":1`) {
				t.Errorf("the next node has %s", answer)
			}
			if !second.kept.Here(session) || first.kept.Here(session) || second.ids.Open() != 1 || first.ids.Open() != 0 {
				t.Error("the session is not at the other node alone")
			}
			got := second.notes(t, session, 3)
			if len(got) != 3 || !strings.Contains(got[0], `"0 `) || !strings.Contains(got[1], `"1 `) || !strings.Contains(got[2], `"0 `) {
				t.Errorf("notifications: %q", got)
			}
		})
	}
}

// TestHandOverAgain: what a node has handed over is handed over again while no other node has it, as for two requests at
// one time or after a write that failed.
func TestHandOverAgain(t *testing.T) {
	all, _ := startLeavers(t, 2)
	first, second := all[0], all[1]
	_, session := first.post(t, "", "initialize", hello)
	first.post(t, session, "tools/call", `{"n":2}`)
	cluster.Retire(t.Context(), first.node)
	if _, state := first.kept.Leave(session); state == "" {
		t.Fatal("the node has nothing to hand over")
	}
	second.post(t, session, "ping", "{}")
	if got := second.notes(t, session, 2); len(got) != 2 || !strings.Contains(got[0], `"0 `) || !strings.Contains(got[1], `"1 `) {
		t.Errorf("notifications: %q", got)
	}
}

// TestHandOverUnused: what a node was left of a session reaches the node after it, if no call has used it there. A call
// takes it: it does not stay in memory.
func TestHandOverUnused(t *testing.T) {
	all, _ := startLeavers(t, 3)
	_, session := all[0].post(t, "", "initialize", hello)
	all[0].post(t, session, "tools/call", `{"n":0}`)
	cluster.Retire(t.Context(), all[0].node)
	at := func() *leaver {
		t.Helper()
		for _, l := range all {
			if l.kept.Here(session) {
				return l
			}
		}
		t.Fatal("no node has the session")
		return nil
	}
	all[1].post(t, session, "ping", "{}")
	second := at()
	cluster.Retire(t.Context(), second.node)
	third := all[1]
	if second == third {
		third = all[2]
	}
	if answer, _ := third.post(t, session, "tools/call", `{"n":0}`); !strings.Contains(answer, `calls\":1`) {
		t.Errorf("the third node has %s", answer)
	}
	if answer, _ := third.post(t, session, "tools/call", `{"n":0}`); strings.Contains(answer, "calls") {
		t.Errorf("it is still in memory: %s", answer)
	}
}

// TestHandOverBounds: a node hands over the newest 64 KB of notifications, and writes nothing for a session of which it
// knows nothing more than its id.
func TestHandOverBounds(t *testing.T) {
	all, docs := startLeavers(t, 2)
	first, second := all[0], all[1]
	_, session := first.post(t, "", "initialize", hello)
	_, quiet := first.post(t, "", "initialize", hello)
	first.post(t, session, "tools/call", `{"n":20,"size":10000}`)
	first.end()
	written := 0
	for doc, err := range docs.List(t.Context(), "s.") {
		if written++; err != nil || len(doc.Value) > 128<<10 || strings.Contains(string(doc.Value), strings.Repeat("x", 20)) {
			t.Errorf("a document of %d bytes: %v", len(doc.Value), err)
		}
	}
	if written != 1 {
		t.Errorf("%d documents, want one", written)
	}
	second.post(t, quiet, "ping", "{}")
	got := second.notes(t, session, 6)
	if len(got) != 6 || !strings.Contains(got[0], `"14 x`) || !strings.Contains(got[5], `"19 x`) {
		t.Errorf("%d notifications, the first is %.80s", len(got), got)
	}
}
