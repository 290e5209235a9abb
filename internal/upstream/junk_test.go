package upstream

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-mcp/weir/internal/config/mcpserver"
	"github.com/weir-mcp/weir/internal/host/child"
	"github.com/weir-mcp/weir/mcp"
)

// A program that logs to stdout: what it printed, and that stdout is not the place
// for it, is in the error and in the log, without its colours and secrets.
func TestJunkOnStdoutIsTold(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ script, want string }{
		"silent": {`printf '\033[32mListening with hunter2\033[0m\nmore\n'; exec sleep 60`, "did not answer initialize within 500ms; it printed \"Listening with …\" to stdout, which is for MCP messages only"},
		"ended":  {`echo 'Usage: serve with hunter2'; echo sorry >&2; exit 2`, "ended (exit status 2); its last words: sorry; it printed \"Usage: serve with …\" to stdout"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var log lockedBuffer
			m, _ := manage(t, Options{
				StartTimeout: 500 * time.Millisecond, Logger: slog.New(slog.NewTextHandler(&log, nil)),
				Redact: func(s string) string { return strings.ReplaceAll(s, "hunter2", "…") },
			}, &mcpserver.Server{Name: "chatty", Namespace: "chatty", Command: "sh", Args: []string{"-c", c.script}})
			u := upstreamOf(t, m, "chatty")
			eventually(t, "the error says what was printed", func() bool { return strings.Contains(u.Status().LastError, c.want) })
			if e := u.Status().LastError; !strings.HasPrefix(e, `upstream "chatty"`) || strings.Contains(e, "hunter2") {
				t.Errorf("got %s", e)
			}
			if got := log.String(); !strings.Contains(got, "stdout, which is for MCP messages only") || !strings.Contains(got, "with …") || strings.Contains(got, "hunter2") {
				t.Errorf("the log says %s", got)
			}
		})
	}
}

// While a server has not answered and not failed, it is said for how long, and what
// it sent instead.
func TestNoteOfASlowStart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, b := mcp.Pipe()
		defer b.Close()
		m := New(Options{open: func(*mcpserver.Server) (mcp.Stream, error) { return a, nil }})
		defer func() {
			if err := m.Close(context.Background()); err != nil {
				t.Error(err)
			}
		}()
		m.Apply([]*mcpserver.Server{{Name: "slow", Namespace: "slow", Command: "slow"}})
		is := func(want string) {
			t.Helper()
			synctest.Wait()
			if st := m.Status()[0]; st.State != StateStarting || st.Note != want || st.LastError != "" {
				t.Errorf("%s, note %q, error %q; want the note %q", st.State, st.Note, st.LastError, want)
			}
		}
		is("")
		if _, err := b.Read(); err != nil { // initialize
			t.Fatal(err)
		}
		if err := b.Write([]byte("Listening")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(slowStart - time.Second)
		is("")
		time.Sleep(2 * time.Second)
		is(`has not answered for 6s; it sent "Listening", which is no MCP message`)
	})
}

// What is logged of a server that prints without end is bounded.
func TestJunkIsLoggedInBounds(t *testing.T) {
	var log lockedBuffer
	u := &Upstream{server: server{opts: Options{}.withDefaults(), log: slog.New(slog.NewTextHandler(&log, nil))}}
	for range 3 { // connections
		j := &junk{srv: &u.server}
		for range 10 * maxJunkLogged {
			j.take([]byte(strings.Repeat("x", 1<<13)), errors.New("no JSON"))
		}
		if got := j.hint(); !strings.HasPrefix(got, `; it sent "xxx`) || len(got) > 300 {
			t.Errorf("hint %q", got)
		}
	}
	got := log.String()
	if n := strings.Count(got, "skipped what is no MCP message"); n != maxJunkLogged || len(got) > 1000*maxJunkLogged {
		t.Errorf("%d lines, %d bytes", n, len(got))
	}
	if n := strings.Count(got, "not logged"); n != 1 {
		t.Errorf("the end of the log is told %d times", n)
	}
}

// What is put around the transport of connections is around that of HTTP+SSE, too:
// its stream and its messages.
func TestTransportOfSSE(t *testing.T) {
	t.Parallel()
	url, _ := serveHTTP(t, "127.0.0.1:0")
	var mu sync.Mutex
	seen := map[string]int{}
	m, _ := manage(t, Options{Transport: func(upstream string, _ Owner, base http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			mu.Lock()
			seen[upstream+" "+r.Method]++
			mu.Unlock()
			return base.RoundTrip(r)
		})
	}}, remote("old", strings.TrimSuffix(url, "/mcp")+"/sse", mcpserver.TransportSSE))
	ready(t, m)
	mustCall(t, upstreamOf(t, m, "old"), "echo", `{"text":"hello"}`, "hello")
	mu.Lock()
	defer mu.Unlock()
	if seen["old GET"] != 1 || seen["old POST"] < 3 {
		t.Errorf("seen %v", seen)
	}
}

// The transport of a server that has a way of its own is found by the configuration of the server that connects, which
// the Manager may not have yet.
func TestWay(t *testing.T) {
	t.Parallel()
	url, _ := serveHTTP(t, "127.0.0.1:0")
	way := roundTripper(func(r *http.Request) (*http.Response, error) {
		r = r.Clone(r.Context())
		r.URL.Host = strings.TrimSuffix(strings.TrimPrefix(url, "http://"), "/mcp")
		return http.DefaultTransport.RoundTrip(r)
	})
	t.Cleanup(http.DefaultTransport.(*http.Transport).CloseIdleConnections)
	m, _ := manage(t, Options{Way: func(server *mcpserver.Server) http.RoundTripper {
		if !strings.Contains(server.URL, ".invalid") {
			return nil
		}
		return way
	}}, remote("s", "http://one.invalid/mcp", mcpserver.TransportHTTP))
	for _, next := range []string{url, "http://another.invalid/mcp"} {
		ready(t, m)
		mustCall(t, upstreamOf(t, m, "s"), "echo", `{"text":"hello"}`, "hello")
		m.Apply([]*mcpserver.Server{remote("s", next, mcpserver.TransportHTTP)})
	}
	ready(t, m)
	mustCall(t, upstreamOf(t, m, "s"), "echo", `{"text":"hello"}`, "hello")
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// lockedBuffer takes a log while a test reads it.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// TestJunkWithoutEndIsPaced: a program that prints lines without end is read at a bounded rate.
func TestJunkWithoutEndIsPaced(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		j := &junk{srv: &server{log: slog.New(slog.DiscardHandler), opts: Options{}.withDefaults()}, printed: true}
		began := time.Now()
		for range (child.PaceBurst + 30*child.PaceRate) / (lineCost + 2) {
			j.take([]byte("y\n"), errors.New("no message"))
		}
		if took := time.Since(began); took < 25*time.Second || took > 35*time.Second {
			t.Errorf("it took %v", took)
		}
	})
}
