package streamable

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-mcp/weir/internal/limit/memory"
	"github.com/weir-mcp/weir/mcp"
)

func storeOf(maxEvents, maxBytes int, session, total int64) *serverStream {
	return &serverStream{id: "c1", maxEvents: maxEvents, maxBytes: maxBytes, budgets: [2]*budget{{max: session}, {max: total}}}
}

// contents shows what a stream keeps: sent events, a bar, those not sent.
func contents(s *serverStream) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for i, ev := range s.events {
		if i == s.firstUnsent() {
			out = append(out, "|")
		}
		out = append(out, fmt.Sprintf("%d:%s", ev.seq, ev.data))
	}
	return strings.Join(out, " ")
}

// checkAccount compares the counters with what is kept.
func checkAccount(t *testing.T, s *serverStream) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	all, unsent := 0, 0
	for i, ev := range s.events {
		all += len(ev.data)
		if i >= s.firstUnsent() {
			unsent += len(ev.data)
		}
	}
	if s.bytes != all || s.unsent != unsent || s.budgets[0].used.Load() != int64(all) || s.budgets[1].used.Load() != int64(all) {
		t.Errorf("counted %d bytes, %d unsent, budgets %d and %d; there are %d and %d",
			s.bytes, s.unsent, s.budgets[0].used.Load(), s.budgets[1].used.Load(), all, unsent)
	}
}

func TestServerStreamBounds(t *testing.T) {
	ctx := context.Background()
	const big = 1 << 20
	tests := []struct {
		name  string
		store *serverStream
		do    func(s *serverStream)
		want  string
	}{
		{"sent events are forgotten first", storeOf(3, big, big, big), func(s *serverStream) {
			c, _ := s.attach(-1)
			s.push(message{data: []byte("a")})
			s.push(message{data: []byte("b")})
			s.take(c, nil)
			s.detach(c)
			s.push(message{data: []byte("c")})
			s.push(message{data: []byte("d")})
		}, "2:b | 3:c 4:d"},
		{"then the oldest notification", storeOf(2, big, big, big), func(s *serverStream) {
			s.push(message{data: []byte("keep")})
			s.notify(ctx, eventNotice, message{data: []byte("n1")})
			s.notify(ctx, eventNotice, message{data: []byte("n2")})
			s.notify(ctx, eventNotice, message{data: []byte("n3")})
		}, "| 1:keep 4:n3"},
		{"requests and responses always fit", storeOf(2, 3, 3, 3), func(s *serverStream) {
			for _, d := range []string{"aaaa", "bbbb", "cccc"} {
				s.push(message{data: []byte(d)})
			}
			s.notify(ctx, eventNotice, message{data: []byte("n")})
		}, "| 1:aaaa 2:bbbb 3:cccc"},
		{"bytes count", storeOf(9, 4, big, big), func(s *serverStream) {
			s.notify(ctx, eventNotice, message{data: []byte("aaa")})
			s.notify(ctx, eventNotice, message{data: []byte("bbb")})
		}, "| 2:bbb"},
		{"the session's budget empties what was sent", storeOf(9, big, 3, big), func(s *serverStream) {
			c, _ := s.attach(-1)
			s.push(message{data: []byte("aa")})
			s.take(c, nil)
			s.push(message{data: []byte("bb")})
		}, "| 2:bb"},
		{"nobody reads and memory is short", storeOf(9, big, big, 3), func(s *serverStream) {
			s.notify(ctx, eventNotice, message{data: []byte("aa")})
			s.notify(ctx, eventNotice, message{data: []byte("bb")})
		}, "| 2:bb"},
		{"a large response goes once it was sent", storeOf(9, 3, big, big), func(s *serverStream) {
			c, _ := s.attach(-1)
			s.push(message{data: []byte("response")})
			s.take(c, nil)
		}, ""},
		{"the same change twice", storeOf(9, big, big, big), func(s *serverStream) {
			s.notify(ctx, eventChanged, message{data: []byte("tools")})
			s.notify(ctx, eventChanged, message{data: []byte("prompts")})
			s.notify(ctx, eventChanged, message{data: []byte("tools")})
		}, "| 1:tools 2:prompts"},
		{"a change after it was told", storeOf(9, big, big, big), func(s *serverStream) {
			c, _ := s.attach(-1)
			s.notify(ctx, eventChanged, message{data: []byte("tools")})
			s.take(c, nil)
			s.notify(ctx, eventChanged, message{data: []byte("tools")})
		}, "1:tools | 2:tools"},
		{"progress of a full stream, by token", storeOf(2, big, big, big), func(s *serverStream) {
			for i, token := range []string{"1", "2", "1", "1", "2"} {
				s.notify(ctx, eventProgress, message{data: fmt.Appendf(nil, `{"params":{"progressToken":%s,"p":%d}}`, token, i)})
			}
		}, `| 4:{"params":{"progressToken":1,"p":3}} 5:{"params":{"progressToken":2,"p":4}}`},
		{"what was not written is taken again", storeOf(9, big, big, big), func(s *serverStream) {
			c, _ := s.attach(-1)
			s.push(message{data: []byte("a")})
			s.push(message{data: []byte("b")})
			evs, _ := s.take(c, nil)
			s.untake(c, evs[1:])
		}, "1:a | 2:b"},
		{"nothing follows the end", storeOf(9, big, big, big), func(s *serverStream) {
			s.push(message{data: []byte("a")})
			s.end()
			s.push(message{data: []byte("b")})
		}, "| 1:a"},
		{"discarded", storeOf(9, big, big, big), func(s *serverStream) {
			s.push(message{data: []byte("a")})
			s.discard()
			s.push(message{data: []byte("b")})
		}, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			test.do(test.store)
			if got := contents(test.store); got != test.want {
				t.Errorf("kept %s, want %s", got, test.want)
			}
			checkAccount(t, test.store)
		})
	}
}

// Once a wait for room was in vain, nobody waits again before something is
// sent.
func TestServerStreamWaitsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := storeOf(1, 1<<20, 1<<20, 1<<20)
		c, _ := s.attach(-1)
		ctx := context.Background()
		s.notify(ctx, eventNotice, message{data: []byte("a")})
		took := func(data string) time.Duration {
			began := time.Now()
			s.notify(ctx, eventNotice, message{data: []byte(data)})
			return time.Since(began)
		}
		if d := took("b"); d != maxWait {
			t.Errorf("the first that did not fit waited %v, want %v", d, maxWait)
		}
		if d := took("c"); d != 0 {
			t.Errorf("the next waited %v", d)
		}
		s.take(c, nil)
		s.notify(ctx, eventNotice, message{data: []byte("d")})
		time.AfterFunc(maxWait/2, func() { s.take(c, nil) })
		if d := took("e"); d != maxWait/2 {
			t.Errorf("with a client that catches up, it waited %v, want %v", d, maxWait/2)
		}
		if s.dropped != 2 {
			t.Errorf("%d dropped, want 2", s.dropped)
		}
		checkAccount(t, s)
	})
}

func TestServerEventIDs(t *testing.T) {
	tests := []struct {
		id     string
		stream string
		seq    int64
		ok     bool
	}{
		{"c1_0", "c1", 0, true},
		{"g_9223372036854775807", "g", 9223372036854775807, true},
		{"c1_-1", "", 0, false},
		{"c1_", "", 0, false},
		{"_1", "", 0, false},
		{"c1", "", 0, false},
		{"", "", 0, false},
		{"c1_9223372036854775808", "", 0, false},
		{strings.Repeat("c", 70) + "_1", "", 0, false},
	}
	for _, test := range tests {
		stream, seq, ok := parseEventID(test.id)
		if ok != test.ok || ok && (stream != test.stream || seq != test.seq) {
			t.Errorf("%q: %q, %d, %v", test.id, stream, seq, ok)
		}
		if ok {
			if got := (&serverStream{id: stream}).eventID(seq); got != test.id {
				t.Errorf("%q comes back as %q", test.id, got)
			}
		}
	}
}

// TestLargeAnswerOnAStream: a large answer of the modern era arrives whole on a stream, and its memory is returned.
func TestLargeAnswerOnAStream(t *testing.T) {
	pool := memory.NewPool(memory.Options{Limit: 64 << 20, Dir: t.TempDir()})
	defer pool.Close()
	want := `{"text":"` + strings.Repeat("x", 4<<20) + `"}`
	server := NewServer(ServerOptions{Handler: mcp.HandlerFunc(func(ctx context.Context, r *mcp.Request) (json.RawMessage, error) {
		memory.FromContext(ctx).Count(pool, "", "test")
		return json.RawMessage(want), nil
	})})
	front := httptest.NewServer(server)
	defer front.Close()
	defer func() { _ = server.Shutdown(context.WithoutCancel(t.Context())) }()
	body := `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, front.URL, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "text/event-stream")
	req.Header.Set("Mcp-Protocol-Version", "2026-07-28")
	req.Header.Set("Mcp-Method", "tools/list")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if err != nil || !bytes.Contains(got, []byte("data: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":"+want+"}\n\n")) {
		t.Fatalf("%d bytes, %v: %.300s", len(got), err, got)
	}
	front.Close() // waits for the exchange
	if used := pool.Usage().Memory + pool.Usage().Disk; used != 0 {
		t.Errorf("%d bytes are still counted", used)
	}
}

// TestLargeMessageIsCounted: a large message is in the account of its owner as long as a stream keeps it or a connection
// writes it, whatever becomes of it.
func TestLargeMessageIsCounted(t *testing.T) {
	pool := memory.NewPool(memory.Options{Limit: 64 << 20, Dir: t.TempDir()})
	defer pool.Close()
	ctx, scope := memory.WithScope(t.Context())
	defer scope.End()
	scope.Count(pool, "", "test")
	params := []byte(`{"data":"` + strings.Repeat("x", 1<<20) + `"}`)
	used := func() int64 { u := pool.Usage(); return u.Memory + u.Disk }
	large := func() message {
		t.Helper()
		before := used()
		m, err := newNotification(ctx, "notifications/message", params)
		if err != nil || used() < before+1<<20 {
			t.Fatalf("%v, %d bytes are counted", err, used())
		}
		return m
	}
	for name, do := range map[string]func(s *serverStream){
		"discarded":       func(s *serverStream) { s.push(large()) },
		"after the end":   func(s *serverStream) { s.end(); s.push(large()) },
		"no room for it":  func(s *serverStream) { s.maxBytes = 1; s.notify(ctx, eventNotice, large()) },
		"the same change": func(s *serverStream) { s.notify(ctx, eventChanged, large()); s.notify(ctx, eventChanged, large()) },
		"written": func(s *serverStream) {
			c, _ := s.attach(-1)
			s.push(large())
			s.maxBytes = 1
			evs, _ := s.take(c, nil) // which forgets it
			if len(evs) != 1 || used() < 1<<20 || !bytes.Contains(evs[0].data, params) {
				t.Errorf("%d events, %d bytes are counted", len(evs), used())
			}
			evs[0].release()
			if used() != 0 {
				t.Errorf("%d bytes are counted after the write", used())
			}
		},
		"written again": func(s *serverStream) {
			c, _ := s.attach(-1)
			s.push(large())
			evs, _ := s.take(c, nil)
			evs[0].release()
			s.untake(c, evs)
			evs, _ = s.take(c, nil)
			if len(evs) != 1 || !bytes.Contains(evs[0].data, params) {
				t.Errorf("%d events", len(evs))
			}
			evs[0].release()
		},
	} {
		s := storeOf(9, 4<<20, 8<<20, 8<<20)
		do(s)
		s.discard()
		if used() != 0 {
			t.Errorf("%s: %d bytes are still counted", name, used())
		}
	}
}
