package streamable_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/net/guard"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/streamable"
)

func kindIn(body string) string {
	return rawjson.Text(rawjson.GetPath([]byte(body), "error", "data", "kind"))
}

// Only the session that made a request can cancel it, and only in the legacy
// era by message.
func TestServerCancel(t *testing.T) {
	var ended cause
	inBubble(t, streamable.ServerOptions{Handler: serverOf(map[string]toolFunc{"slow": after(time.Hour, &ended)})}, func(t *testing.T, a *agent) {
		a.initialize(mcp.V20251125)
		answer := make(chan string, 1)
		go func() {
			_, body := a.ask(callOf(7, "slow"))
			answer <- body
		}()
		synctest.Wait()
		if status, body := a.ask(callOf(7, "slow")); status != 400 || !strings.Contains(body, "-32600") || !strings.Contains(body, `"id":7`) {
			t.Errorf("the same id again: %d %s", status, body)
		}
		const cancel = `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}`
		sibling := a.as("ann")
		sibling.initialize(mcp.V20251125)
		sibling.ask(cancel)
		modern := a.as("ann")
		modern.version = mcp.V20260728
		modern.send(t.Context(), "POST", cancel, "Mcp-Method", "notifications/cancelled").Body.Close()
		a.ask(strings.Replace(cancel, "7", `"7"`, 1))
		synctest.Wait()
		if ended.get() != nil {
			t.Fatalf("somebody else's cancellation, or that of another id, ended the call: %v", ended.get())
		}
		if status, _ := a.ask(cancel); status != 202 {
			t.Errorf("cancellation: %d", status)
		}
		if body := <-answer; kindIn(body) != "cancelled" {
			t.Errorf("answer to the cancelled call: %s", body)
		}
		if k, _ := mcp.KindOf(ended.get()); k != mcp.KindCancelled {
			t.Errorf("the handler saw %v", ended.get())
		}
		// The id is free again.
		a.ask(`{"jsonrpc":"2.0","id":7,"method":"ping"}`)
	})
}

func TestServerDeleteCancelsCalls(t *testing.T) {
	var ended cause
	inBubble(t, streamable.ServerOptions{Handler: serverOf(map[string]toolFunc{"slow": after(time.Hour, &ended)})}, func(t *testing.T, a *agent) {
		a.initialize(mcp.V20251125)
		resp := a.send(t.Context(), "POST", callOf(1, "slow"))
		defer resp.Body.Close()
		if got := a.send(t.Context(), "DELETE", "").StatusCode; got != 204 {
			t.Errorf("DELETE: %d", got)
		}
		data, err := io.ReadAll(resp.Body)
		if err != nil || !strings.Contains(string(data), `"kind":"cancelled"`) {
			t.Errorf("answer %q, %v", data, err)
		}
	})
}

// Ids of modern requests are those of different clients of one principal.
func TestServerModernIDsMayRepeat(t *testing.T) {
	var ended cause
	inBubble(t, streamable.ServerOptions{Handler: serverOf(map[string]toolFunc{"slow": after(time.Minute, &ended)})}, func(t *testing.T, a *agent) {
		a.version = mcp.V20260728
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() {
				resp := a.send(t.Context(), "POST", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"slow",`+modernMeta+`}}`, "Mcp-Method", "tools/call", "Mcp-Name", "slow")
				defer resp.Body.Close()
				if data, err := io.ReadAll(resp.Body); err != nil || !strings.Contains(string(data), `"done":true`) {
					t.Errorf("%q, %v", data, err)
				}
			})
		}
		all.Wait()
	})
}

// Sessions belong to principals; modern ones have one each.
func TestServerPrincipals(t *testing.T) {
	seen := map[*mcp.Session]string{}
	var mu sync.Mutex
	who := func(ctx context.Context, r *mcp.Request) (json.RawMessage, error) {
		mu.Lock()
		defer mu.Unlock()
		seen[r.Session] = r.Session.Principal() + " " + guard.Principal(ctx) + " " + streamable.Header(ctx).Get("X-Probe")
		return nil, nil
	}
	inBubble(t, streamable.ServerOptions{Handler: serverOf(map[string]toolFunc{"who": who})}, func(t *testing.T, a *agent) {
		a.initialize(mcp.V20251125)
		thief := a.as("bob")
		thief.session = a.session
		for _, method := range []string{"POST", "GET", "DELETE"} {
			resp := thief.send(t.Context(), method, callOf(1, "who"))
			resp.Body.Close()
			if resp.StatusCode != 404 {
				t.Errorf("%s on somebody else's session: %d, want 404", method, resp.StatusCode)
			}
		}
		if len(seen) != 0 {
			t.Errorf("somebody else's request reached the handler: %v", seen)
		}
		for _, name := range []string{"ann", "bob", "ann"} {
			m := a.as(name)
			m.version = mcp.V20260728
			m.send(t.Context(), "POST", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"who",`+modernMeta+`}}`,
				"Mcp-Method", "tools/call", "Mcp-Name", "who", "X-Probe", "p-"+name).Body.Close()
		}
		if len(seen) != 2 {
			t.Errorf("%d sessions of 2 principals", len(seen))
		}
		for s, got := range seen {
			if want := s.Principal() + " " + s.Principal() + " p-" + s.Principal(); got != want {
				t.Errorf("the handler saw %q, want %q", got, want)
			}
		}
	})
}

// A client that does not read delays nobody but itself, and misses only
// progress that is outdated.
func TestServerSlowClient(t *testing.T) {
	const n = 20_000
	var took time.Duration
	tool := func(ctx context.Context, r *mcp.Request) (json.RawMessage, error) {
		began := time.Now()
		defer func() { took = time.Since(began) }()
		for i := range n {
			if i%100 == 0 {
				_ = r.Peer.Notify(ctx, "notifications/message", fmt.Appendf(nil, `{"log":%d}`, i))
			}
			_ = r.Peer.Notify(ctx, "notifications/progress", fmt.Appendf(nil, `{"progressToken":1,"progress":%d}`, i))
		}
		return json.RawMessage(`{}`), nil
	}
	inBubble(t, streamable.ServerOptions{Handler: serverOf(map[string]toolFunc{"talk": tool})}, func(t *testing.T, a *agent) {
		a.initialize(mcp.V20251125)
		resp := a.send(t.Context(), "POST", callOf(1, "talk"))
		defer resp.Body.Close()
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if took != 0 {
			t.Errorf("the handler was held up for %v", took)
		}
		in := events(resp)
		logs, count, last := 0, 0, ""
		for {
			ev, err := in.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if last == "result" {
				t.Errorf("after the response came %s", ev.Data)
			}
			switch {
			case rawjson.GetPath(ev.Data, "params", "log") != nil:
				logs++
			case rawjson.Get(ev.Data, "result") != nil:
				if last != fmt.Sprint(n-1) {
					t.Errorf("the last progress before the response was %s", last)
				}
				last = "result"
			default:
				count++
				last = string(rawjson.GetPath(ev.Data, "params", "progress"))
			}
		}
		if last != "result" || logs != n/100 || count > 1000 {
			t.Errorf("%d log messages, %d of progress, at last %s; want %d, far fewer than %d, result", logs, count, last, n/100, n)
		}
	})
}

// Notifications that cannot be coalesced wait a moment for a slow client, once.
func TestServerStuckClient(t *testing.T) {
	var took time.Duration
	tool := func(ctx context.Context, r *mcp.Request) (json.RawMessage, error) {
		began := time.Now()
		for i := range 5000 {
			_ = r.Peer.Notify(ctx, "notifications/message", fmt.Appendf(nil, `{"log":%d}`, i))
		}
		took = time.Since(began)
		return json.RawMessage(`{}`), nil
	}
	inBubble(t, streamable.ServerOptions{MaxEvents: 100, Handler: serverOf(map[string]toolFunc{"talk": tool})}, func(t *testing.T, a *agent) {
		a.initialize(mcp.V20251125)
		resp := a.send(t.Context(), "POST", callOf(1, "talk"))
		defer resp.Body.Close()
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if took == 0 || took > time.Second {
			t.Errorf("the handler was held up for %v, want less than a second", took)
		}
		data, err := io.ReadAll(resp.Body)
		if err != nil || !strings.Contains(string(data), `{"log":4999}`) || !strings.Contains(string(data), `"result":{}`) {
			t.Errorf("the newest message and the response are missing: %.200q…, %v", data, err)
		}
	})
}

func TestServerShutdown(t *testing.T) {
	var ended, listenEnded cause
	reached := false
	tools := map[string]toolFunc{
		"quick":                after(2*time.Second, new(cause)),
		"slow":                 after(time.Hour, &ended),
		"subscriptions/listen": after(time.Hour, &listenEnded),
		"late":                 func(context.Context, *mcp.Request) (json.RawMessage, error) { reached = true; return nil, nil },
	}
	inBubble(t, streamable.ServerOptions{Handler: serverOf(tools)}, func(t *testing.T, a *agent) {
		a.initialize(mcp.V20251125)
		modern := a.as("ann")
		modern.version = mcp.V20260728
		get := a.send(t.Context(), "GET", "")
		defer get.Body.Close()
		type answer struct {
			body string
			at   time.Duration
		}
		began := time.Now()
		ask := func(a *agent, body string, header ...string) <-chan answer {
			out := make(chan answer, 1)
			go func() {
				resp := a.send(t.Context(), "POST", body, header...)
				defer resp.Body.Close()
				data, err := io.ReadAll(resp.Body)
				if err != nil {
					t.Error(err)
				}
				out <- answer{string(data), time.Since(began)}
			}()
			return out
		}
		quick := ask(a, callOf(1, "quick"))
		slow := ask(a, callOf(2, "slow"))
		asJSON := a.as("ann")
		asJSON.session, asJSON.accept = a.session, "application/json"
		slowJSON := ask(asJSON, callOf(3, "slow"))
		listen := ask(modern, `{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{`+modernMeta+`}}`, "Mcp-Method", "subscriptions/listen")
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
		defer cancel()
		done := make(chan error)
		go func() { done <- a.s.Shutdown(ctx) }()
		synctest.Wait()
		if status, body := a.ask(callOf(4, "late")); status != 503 || kindIn(body) != "shutting_down" || !strings.Contains(body, `"id":4`) || !strings.Contains(body, `"message":"weir is shutting down;`) {
			t.Errorf("a new request: %d %s", status, body)
		}
		if err := <-done; err != nil {
			t.Errorf("Shutdown: %v", err)
		}
		if d := time.Since(began); d != 4*time.Second {
			t.Errorf("Shutdown took %v, want 4s", d)
		}
		for _, test := range []struct {
			name string
			got  answer
			at   time.Duration
			want string
		}{
			{"quick", <-quick, 2 * time.Second, `"done":true`},
			{"slow", <-slow, 4 * time.Second, `"kind":"shutting_down"`},
			{"slow as JSON", <-slowJSON, 4 * time.Second, `"kind":"shutting_down"`},
			{"listen", <-listen, 0, `"kind":"shutting_down"`},
		} {
			if test.got.at != test.at || !strings.Contains(test.got.body, test.want) {
				t.Errorf("%s after %v: %q; want %s after %v", test.name, test.got.at, test.got.body, test.want, test.at)
			}
		}
		if _, err := io.Copy(io.Discard, get.Body); err != nil {
			t.Errorf("the GET stream ended with %v", err)
		}
		if k, _ := mcp.KindOf(ended.get()); k != mcp.KindShuttingDown || reached {
			t.Errorf("the slow handler saw %v; a late one ran: %v", ended.get(), reached)
		}
	})
}

// A handler that does not end is answered for, and Shutdown says that it goes on.
func TestServerShutdownOfAStubbornHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		s := streamable.NewServer(streamable.ServerOptions{Sessionless: true, Handler: mcp.HandlerFunc(func(context.Context, *mcp.Request) (json.RawMessage, error) {
			<-release
			return json.RawMessage(`{}`), nil
		})})
		w := newRecorder()
		served := make(chan struct{})
		go func() {
			defer close(served)
			s.ServeHTTP(w, w.request(`{"jsonrpc":"2.0","id":1,"method":"x"}`))
		}()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if err := s.Shutdown(ctx); err == nil || !strings.Contains(err.Error(), "1 requests are still being handled") {
			t.Errorf("Shutdown: %v", err)
		}
		if body := w.Body.String(); kindIn(body) != "shutting_down" {
			t.Errorf("answer %s", body)
		}
		close(release)
		<-served
		if err := s.Shutdown(ctx); err != nil {
			t.Errorf("Shutdown after its end: %v", err)
		}
		if body := w.Body.String(); strings.Count(body, "jsonrpc") != 1 {
			t.Errorf("two answers: %s", body)
		}
	})
}

func TestServerBounds(t *testing.T) {
	var ended cause
	o := streamable.ServerOptions{MaxSessions: 3, MaxPrincipalCalls: 2, Handler: serverOf(map[string]toolFunc{"slow": after(time.Hour, &ended)})}
	inBubble(t, o, func(t *testing.T, a *agent) {
		sessions := []*agent{a.as("ann"), a.as("ann"), a.as("ann")}
		for _, s := range sessions {
			time.Sleep(time.Second)
			s.initialize(mcp.V20251125)
		}
		a.as("bob").initialize(mcp.V20251125)
		ping := `{"jsonrpc":"2.0","id":1,"method":"ping"}`
		for i, want := range []int{404, 200, 200} {
			if got, _ := sessions[i].ask(ping); got != want {
				t.Errorf("session %d: %d, want %d", i, got, want)
			}
		}
		ctx, hangUp := context.WithCancel(t.Context())
		var calls sync.WaitGroup
		defer calls.Wait()
		defer hangUp()
		for _, s := range sessions[1:] {
			calls.Go(func() {
				if resp := s.send(ctx, "POST", callOf(2, "slow")); resp != nil {
					_, _ = io.Copy(io.Discard, resp.Body) // until the client hangs up
					resp.Body.Close()
				}
			})
		}
		synctest.Wait()
		if status, body := sessions[1].ask(ping); status != 503 || kindIn(body) != "overloaded" {
			t.Errorf("a third call: %d %s", status, body)
		}
		resp := a.as("ann").send(t.Context(), "POST", `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}`)
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != 503 || kindIn(string(body)) != "overloaded" || resp.Header.Get("Mcp-Session-Id") != "" {
			t.Errorf("a third session while two are in use: %d %s", resp.StatusCode, body)
		}
	})
}

// At the bound of all sessions, the principal that has most gives up the one that is idle for longest. A busy session
// stays, and what was replaced is counted.
func TestServerBoundIsFair(t *testing.T) {
	var ended cause
	var replaced []string
	var living atomic.Int64
	o := streamable.ServerOptions{
		MaxSessions: 4, Handler: serverOf(map[string]toolFunc{"slow": after(time.Hour, &ended)}),
		OnSession: func(change int, of string) {
			living.Add(int64(change))
			if of != "" {
				replaced = append(replaced, of)
			}
		},
	}
	inBubble(t, o, func(t *testing.T, a *agent) {
		ping := `{"jsonrpc":"2.0","id":1,"method":"ping"}`
		began := func(name string) *agent {
			time.Sleep(time.Second)
			s := a.as(name)
			s.initialize(mcp.V20251125)
			return s
		}
		bob := began("bob")
		ann := []*agent{began("ann"), began("ann"), began("ann")}
		ctx, hangUp := context.WithCancel(t.Context())
		var calls sync.WaitGroup
		defer calls.Wait()
		defer hangUp()
		calls.Go(func() {
			if resp := ann[0].send(ctx, "POST", callOf(2, "slow")); resp != nil {
				_, _ = io.Copy(io.Discard, resp.Body) // until the client hangs up
				resp.Body.Close()
			}
		})
		synctest.Wait()
		cid := began("cid")
		for i, s := range []*agent{bob, ann[0], ann[1], ann[2], cid} {
			want := 200
			if i == 2 { // the oldest idle one of ann's three
				want = 404
			}
			if got, _ := s.ask(ping); got != want {
				t.Errorf("session %d: %d, want %d", i, got, want)
			}
		}
		if fmt.Sprint(replaced) != "[ann]" || living.Load() != 4 {
			t.Errorf("replaced %v, %d live", replaced, living.Load())
		}
	})
	if n := living.Load(); n != 0 {
		t.Errorf("%d sessions live after the end", n)
	}
}

// At the bound, clients that come at the same time take the places of sessions that are
// idle, and not of each other.
func TestServerBoundAtOnce(t *testing.T) {
	s := streamable.NewServer(streamable.ServerOptions{MaxSessions: 4, Handler: serverOf(nil)})
	var clients sync.WaitGroup
	var refused atomic.Int64
	for range 3 { // so one session at least is idle, always
		clients.Go(func() {
			for range 5000 {
				r := httptest.NewRequest("POST", "/mcp", strings.NewReader(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}`))
				r.Header.Set("Content-Type", "application/json")
				w := httptest.NewRecorder()
				if s.ServeHTTP(w, r); w.Code != http.StatusOK {
					refused.Add(1)
				}
			}
		})
	}
	clients.Wait()
	if n := refused.Load(); n > 0 {
		t.Errorf("%d clients were refused", n)
	}
	if err := s.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
}

// A handshake that fails leaves no session.
func TestServerFailedHandshake(t *testing.T) {
	var session *mcp.Session
	handler := mcp.HandlerFunc(func(_ context.Context, r *mcp.Request) (json.RawMessage, error) {
		session = r.Session
		return nil, mcp.Errorf(mcp.KindUpstreamStarting, "not ready")
	})
	inBubble(t, streamable.ServerOptions{Handler: handler}, func(t *testing.T, a *agent) {
		resp := a.send(t.Context(), "POST", `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{}}`)
		resp.Body.Close()
		if id := resp.Header.Get("Mcp-Session-Id"); id != "" {
			t.Errorf("a session id %q although the handshake failed", id)
		}
		select {
		case <-session.Done():
		default:
			t.Error("the session goes on")
		}
	})
}

// What a handler asks the client goes out on its call's stream and is answered
// by a POST of the same session alone.
func TestServerAsksTheClient(t *testing.T) {
	var progress []string
	back := mcp.HandlerFunc(func(_ context.Context, r *mcp.Request) (json.RawMessage, error) {
		progress = append(progress, string(r.Params))
		return nil, nil
	})
	tools := map[string]toolFunc{
		"ask": func(ctx context.Context, r *mcp.Request) (json.RawMessage, error) {
			return r.Peer.Call(ctx, "sampling/createMessage", json.RawMessage(`{"_meta":{"progressToken":"theirs"},"x":1}`), back)
		},
		"give up": func(ctx context.Context, r *mcp.Request) (json.RawMessage, error) {
			ctx, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			_, err := r.Peer.Call(ctx, "roots/list", nil, nil)
			if !errors.Is(err, context.DeadlineExceeded) {
				return nil, fmt.Errorf("call: %w", err)
			}
			return json.RawMessage(`{"gave":"up"}`), nil
		},
	}
	inBubble(t, streamable.ServerOptions{Handler: serverOf(tools)}, func(t *testing.T, a *agent) {
		a.initialize(mcp.V20250618)
		other := a.as("ann")
		other.initialize(mcp.V20250618)
		for _, answer := range []string{`"result":{"ok":12345678901234567890}`, `"error":{"code":-1,"message":"User rejected","data":{"x":[1]}}`} {
			resp := a.send(t.Context(), "POST", callOf(1, "ask"))
			in := events(resp)
			ev, err := in.Next()
			if err != nil {
				t.Fatal(err)
			}
			id := string(rawjson.Get(ev.Data, "id"))
			if got := string(rawjson.Get(ev.Data, "params")); got != `{"_meta":{"progressToken":`+id+`},"x":1}` {
				t.Errorf("the client was asked %s", got)
			}
			reply := `{"jsonrpc":"2.0","id":` + id + `,` + answer + `}`
			other.ask(reply)
			a.ask(`{"jsonrpc":"2.0","id":"` + id + `",` + answer + `}`)
			a.ask(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":` + id + `,"progress":0.5}}`)
			if status, _ := a.ask(reply); status != 202 {
				t.Errorf("reply: %d", status)
			}
			ev, err = in.Next()
			if err != nil || string(ev.Data) != `{"jsonrpc":"2.0","id":1,`+answer+`}` {
				t.Errorf("answer %s, %v", ev.Data, err)
			}
			resp.Body.Close()
			if status, _ := a.ask(reply); status != 202 {
				t.Errorf("the same reply again: %d", status)
			}
		}
		if got := strings.Join(progress, " "); got != `{"progressToken":"theirs","progress":0.5} {"progressToken":"theirs","progress":0.5}` {
			t.Errorf("progress of the client: %s", got)
		}
		resp := a.send(t.Context(), "POST", callOf(1, "give up"))
		defer resp.Body.Close()
		data, err := io.ReadAll(resp.Body)
		if err != nil || !strings.Contains(string(data), `"method":"notifications/cancelled","params":{"requestId":3}`) || !strings.Contains(string(data), `"gave":"up"`) {
			t.Errorf("stream %q, %v", data, err)
		}
	})
}

// A batch becomes one array, or a stream of all its messages.
func TestServerBatchAnswers(t *testing.T) {
	var ended cause
	var n atomic.Int64
	count := func(context.Context, *mcp.Request) (json.RawMessage, error) {
		n.Add(1)
		return json.RawMessage(`{}`), nil
	}
	inBubble(t, streamable.ServerOptions{Handler: serverOf(map[string]toolFunc{"slow": after(5*time.Second, &ended), "count": count})}, func(t *testing.T, a *agent) {
		a.initialize(mcp.V20250326)
		batch := "[" + callOf(1, "count") + "," + callOf(2, "count") + "," + callOf(2, "count") + "]"
		status, body := a.ask(batch)
		seen := map[string]int{}
		if err := rawjson.EachElement([]byte(body), func(v []byte) bool {
			seen[string(rawjson.Get(v, "id"))]++
			return true
		}); err != nil || status != 200 || seen["1"] != 1 || seen["2"] != 2 {
			t.Errorf("%d %s, %v", status, body, err)
		}
		_, body = a.ask("[" + callOf(3, "slow") + "," + callOf(4, "count") + ",7]")
		quick, slow := strings.Index(body, `"id":4`), strings.Index(body, `"id":3`)
		if quick < 0 || slow < quick || strings.Count(body, "event: message") != 3 || !strings.Contains(body, "-32600") {
			t.Errorf("stream %q: want the invalid, the quick and the slow answer", body)
		}
	})
	if n.Load() < 2 {
		t.Errorf("%d of the batch's calls ran", n.Load())
	}
}

// Raw newlines in a message must not end an event's data.
func TestServerNewlinesInMessages(t *testing.T) {
	tool := func(ctx context.Context, r *mcp.Request) (json.RawMessage, error) {
		_ = r.Peer.Notify(ctx, "notifications/message", json.RawMessage("{\"a\":1,\r\n\n\"b\":2}"))
		return json.RawMessage("{\n  \"pretty\": true\r}"), nil
	}
	inBubble(t, streamable.ServerOptions{Handler: serverOf(map[string]toolFunc{"print": tool})}, func(t *testing.T, a *agent) {
		a.initialize(mcp.V20250618)
		resp := a.send(t.Context(), "POST", callOf(1, "print"))
		defer resp.Body.Close()
		in := events(resp)
		for _, want := range []string{`{"a":1,"b":2}`, `{"pretty":true}`} {
			ev, err := in.Next()
			if err != nil {
				t.Fatal(err)
			}
			part := rawjson.Get(ev.Data, "params")
			if part == nil {
				part = rawjson.Get(ev.Data, "result")
			}
			if got := strings.Join(strings.Fields(string(part)), ""); got != want {
				t.Errorf("event %q, want %s", ev.Data, want)
			}
		}
	})
}

// A handshake that takes its time becomes a stream, whose headers have the
// session's id all the same.
func TestServerSlowHandshake(t *testing.T) {
	slow := mcp.HandlerFunc(func(_ context.Context, r *mcp.Request) (json.RawMessage, error) {
		time.Sleep(3 * time.Second)
		return json.RawMessage(`{"protocolVersion":"2025-11-25"}`), nil
	})
	inBubble(t, streamable.ServerOptions{Handler: slow}, func(t *testing.T, a *agent) {
		a.initialize(mcp.V20251125)
		if a.session == "" {
			t.Fatal("no session id")
		}
		// The version is that of the result where no handler has set it.
		if status, body := a.ask(`[` + callOf(1, "x") + `]`); status != 400 {
			t.Errorf("a batch in 2025-11-25: %d %s", status, body)
		}
	})
}

// A large result is written whole, whatever its way.
func TestServerLargeResults(t *testing.T) {
	large := json.RawMessage(`"` + strings.Repeat("x", 3<<20) + `"`)
	tools := map[string]toolFunc{
		"json": func(context.Context, *mcp.Request) (json.RawMessage, error) { return large, nil },
		"sse": func(ctx context.Context, r *mcp.Request) (json.RawMessage, error) {
			return large, r.Peer.Notify(ctx, "notifications/message", nil)
		},
	}
	inBubble(t, streamable.ServerOptions{Handler: serverOf(tools)}, func(t *testing.T, a *agent) {
		a.initialize(mcp.V20251125)
		want := `{"jsonrpc":"2.0","id":1,"result":` + string(large) + `}`
		if status, body := a.ask(callOf(1, "json")); status != 200 || body != want {
			t.Errorf("as JSON: %d, %d bytes, want %d", status, len(body), len(want))
		}
		if status, body := a.ask(callOf(1, "sse")); status != 200 || !strings.HasSuffix(body, "data: "+want+"\n\n") {
			t.Errorf("as a stream: %d, %d bytes", status, len(body))
		}
	})
}
