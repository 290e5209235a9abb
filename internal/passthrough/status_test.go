package passthrough

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-mcp/weir/internal/net/guard"
)

// answers is a transport that answers without a network.
type answers map[string]func() (int, string)

func (a answers) RoundTrip(r *http.Request) (*http.Response, error) {
	f := a[r.URL.Host]
	if f == nil {
		return nil, fmt.Errorf("no host %s", r.URL.Host)
	}
	w := httptest.NewRecorder()
	code, body := f()
	w.WriteHeader(code)
	_, _ = w.WriteString(body)
	return w.Result(), nil
}

func dataOf(t *testing.T, s *Status, principal string) map[string]AgentStatus {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, "/status/data", nil)
	w := httptest.NewRecorder()
	s.Data(w, r.WithContext(guard.WithPrincipal(r.Context(), principal)))
	var data struct {
		Status string
		Agents map[string]AgentStatus
	}
	if err := json.Unmarshal(w.Body.Bytes(), &data); err != nil {
		t.Fatal(err)
	}
	data.Agents[""] = AgentStatus{Health: data.Status}
	return data.Agents
}

// TestStatusData: each agent is told as it says itself, as unreachable where it
// does not answer, and as its upstream is where it cannot be asked.
func TestStatusData(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int32
		s := NewStatus(StatusOptions{
			Started: time.Now(),
			Transport: answers{
				"good": func() (int, string) {
					asked.Add(1)
					return 200, `{"status":"ok","uptime":12.5,"queue":{"queued":3,"running":1,"concurrency":2}}`
				},
				"going": func() (int, string) { return 503, `{"status":"stopping","uptime":1}` },
				"other": func() (int, string) { return 404, `not found` },
			},
			Agents: func(principal string) []AgentStatus {
				if principal != "ann" {
					return nil
				}
				return []AgentStatus{
					{Name: "good", State: "ready", Uptime: 1, Probe: "http://good/healthz"},
					{Name: "going", State: "ready", Probe: "http://going/healthz"},
					{Name: "gone", State: "idle", Probe: "http://gone/healthz"},
					{Name: "other", State: "ready", Uptime: 7, Probe: "http://other/healthz"},
					{Name: "program", State: "failed", Error: "ended", Uptime: 2},
				}
			},
		})
		got := dataOf(t, s, "ann")
		for name, want := range map[string]struct {
			health string
			uptime float64
		}{"": {"degraded", 0}, "good": {"ok", 12.5}, "going": {"stopping", 1}, "gone": {"unreachable", 0}, "other": {"ok", 7}, "program": {"failed", 2}} {
			if a := got[name]; a.Health != want.health || a.Uptime != want.uptime {
				t.Errorf("%q: %+v", name, a)
			}
		}
		if q := got["good"].Queue; q == nil || *q != (Queue{3, 1, 2}) {
			t.Errorf("queue %+v", q)
		}
		if e := got["gone"].Error; !strings.Contains(e, `"gone"`) {
			t.Errorf("error %q", e)
		}
		if got := dataOf(t, s, "bob"); len(got) != 1 || got[""].Health != "ok" {
			t.Errorf("told to somebody else: %v", got)
		}
		dataOf(t, s, "ann")
		if n := asked.Load(); n != 1 {
			t.Errorf("asked %d times at once", n)
		}
		time.Sleep(probeKept + time.Second)
		dataOf(t, s, "ann")
		if n := asked.Load(); n != 2 {
			t.Errorf("asked %d times in all", n)
		}
	})
}

// TestPages: the page and the client for web pages are there for everybody and
// tell nothing of any agent.
func TestPages(t *testing.T) {
	s := NewStatus(StatusOptions{Name: "weir", Version: "<1>", Agents: func(string) []AgentStatus { t.Error("asked for data"); return nil }})
	client := BrowserClient()
	for _, c := range []struct {
		name   string
		h      http.Handler
		method string
		status int
		header [2]string
		body   string
	}{
		{"page", http.HandlerFunc(s.Page), "GET", 200, [2]string{"Content-Security-Policy", "connect-src 'self'"}, "&lt;1&gt;"},
		{"page posted to", http.HandlerFunc(s.Page), "POST", 405, [2]string{"Allow", "GET, HEAD"}, "not used"},
		{"data posted to", http.HandlerFunc(s.Data), "POST", 405, [2]string{"Allow", "GET, HEAD"}, "not used"},
		{"client", client, "GET", 200, [2]string{"Content-Type", "text/javascript"}, "export class MCPBrowserClient"},
		{"client posted to", client, "POST", 405, [2]string{"Allow", "GET, HEAD"}, "not used"},
	} {
		w := httptest.NewRecorder()
		c.h.ServeHTTP(w, httptest.NewRequest(c.method, "/x", nil))
		if w.Code != c.status || !strings.Contains(w.Header().Get(c.header[0]), c.header[1]) || !strings.Contains(w.Body.String(), c.body) {
			t.Errorf("%s: %d %v %.200s", c.name, w.Code, w.Header(), w.Body.String())
		}
	}
	w := httptest.NewRecorder()
	client.ServeHTTP(w, httptest.NewRequest(http.MethodGet, BrowserClientPath, nil))
	again := httptest.NewRequest(http.MethodGet, BrowserClientPath, nil)
	again.Header.Set("If-None-Match", w.Header().Get("ETag"))
	w = httptest.NewRecorder()
	if client.ServeHTTP(w, again); w.Code != http.StatusNotModified {
		t.Errorf("loaded again: %d", w.Code)
	}
}

// TestProbeHeader: an agent that tells strangers only that it lives is asked with
// the token that it is called with.
func TestProbeHeader(t *testing.T) {
	var got string
	s := NewStatus(StatusOptions{
		Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
			got = r.Header.Get("Authorization")
			return answers{"good": func() (int, string) { return 200, `{"status":"ok","uptime":3}` }}.RoundTrip(r)
		}),
		Agents: func(string) []AgentStatus {
			return []AgentStatus{{Name: "good", State: "ready", Probe: "http://good/healthz", ProbeHeader: http.Header{"Authorization": {"Bearer x"}}}}
		},
	})
	if a := dataOf(t, s, "ann")["good"]; a.Uptime != 3 || got != "Bearer x" {
		t.Errorf("asked with %q: %+v", got, a)
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
