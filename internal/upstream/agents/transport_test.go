package agents

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/weir-mcp/weir/internal/net/address"
	"github.com/weir-mcp/weir/internal/net/guard"
)

// join registers an agent at an address and port.
func join(t *testing.T, r *Registry, remote, name, place string) {
	t.Helper()
	req := httptest.NewRequest("POST", Path, strings.NewReader(fmt.Sprintf(`{"name":%q,"instance":"1",%s}`, name, place)))
	req.RemoteAddr = remote
	req.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	r.ServeHTTP(w, req.WithContext(guard.WithPrincipal(req.Context(), "ann")))
	if w.Code != 200 {
		t.Fatalf("%s: %d %s", place, w.Code, w.Body)
	}
}

func get(rt http.RoundTripper, at string) (string, error) {
	u, err := url.Parse(at)
	if err != nil {
		return "", err
	}
	resp, err := rt.RoundTrip(&http.Request{Method: "GET", URL: u, Host: u.Host, Header: http.Header{}})
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return string(body), err
}

// The way to an agent leads where its registration allows and nowhere else, also
// when the name leads elsewhere later, the agent has left, or the operator has
// taken a host off the list.
func TestTransport(t *testing.T) {
	agent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "agent") }))
	defer agent.Close()
	port := agent.Listener.Addr().(*net.TCPAddr).Port
	names := map[string]string{"agent.lan": "127.0.0.1"}
	listed := hosts(t)
	var owned atomic.Bool
	r := New(Options{
		Hosts:  func(principal string) address.List { return listed(principal) },
		Lookup: lookup(names),
		Owner: func(string) string {
			if owned.Load() {
				return "mcpServers.a"
			}
			return ""
		},
	})
	defer r.CloseIdleConnections()
	if r.Transport("a") != nil {
		t.Error("a name that nobody has registered has a way of its own")
	}
	own := fmt.Sprintf("http://127.0.0.1:%d/", port)
	join(t, r, "127.0.0.1:4000", "a", fmt.Sprintf(`"port":%d`, port))
	way := r.Transport("a")
	if got, err := get(way, own); err != nil || got != "agent" {
		t.Errorf("the agent: %q, %v", got, err)
	}
	for _, at := range []string{"http://169.254.169.254/", "http://10.0.0.8:1/", "http://0.0.0.0:" + fmt.Sprint(port)} {
		if _, err := get(way, at); !errors.Is(err, address.ErrRefused) || !strings.Contains(err.Error(), `"a" is not connected to`) {
			t.Errorf("%s: %v", at, err)
		}
	}
	r.CloseIdleConnections()
	r.leave("ann", "a", "1")
	if _, err := get(way, own); err == nil || !strings.Contains(err.Error(), "not registered any more") {
		t.Errorf("an agent that has left: %v", err)
	}

	join(t, r, "10.0.0.7:4000", "b", `"url":"http://10.0.0.7:1/mcp"`)
	if _, err := get(r.Transport("b"), own); !errors.Is(err, address.ErrRefused) {
		t.Errorf("loopback for an agent from elsewhere: %v", err)
	}
	names["agent.lan"] = "10.0.0.7"
	join(t, r, "10.0.0.7:4000", "c", fmt.Sprintf(`"url":"http://agent.lan:%d/mcp"`, port))
	names["agent.lan"] = "127.0.0.1"
	if _, err := get(r.Transport("c"), fmt.Sprintf("http://agent.lan:%d/", port)); !errors.Is(err, address.ErrRefused) {
		t.Errorf("a name that leads to this machine now: %v", err)
	}

	listed = hosts(t, "127.0.0.1")
	join(t, r, "10.0.0.7:4000", "d", fmt.Sprintf(`"url":"http://127.0.0.1:%d/mcp"`, port))
	way = r.Transport("d")
	if got, err := get(way, own); err != nil || got != "agent" {
		t.Errorf("a listed host: %q, %v", got, err)
	}
	listed = hosts(t)
	r.CloseIdleConnections()
	if _, err := get(way, own); !errors.Is(err, address.ErrRefused) {
		t.Errorf("a host that is listed no more: %v", err)
	}
	owned.Store(true)
	if r.Transport("d") != nil {
		t.Error("an agent that the operator has named has a way of its own")
	}
	if got, err := get(way, own); err != nil || got != "agent" {
		t.Errorf("an agent that the operator has named meanwhile: %q, %v", got, err)
	}
}
