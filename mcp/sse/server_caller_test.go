package sse_test

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/identity"
	"github.com/weir-mcp/weir/internal/net/guard"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/sse"
)

// TestServerIdentityOfEachPost posts with a refreshed token, which has other groups, on a connection
// that an earlier token opened: the connection goes on, and the handler sees the new groups.
func TestServerIdentityOfEachPost(t *testing.T) {
	seen := make(chan string, 4)
	s := sse.NewServer(sse.ServerOptions{Handler: mcp.HandlerFunc(func(ctx context.Context, r *mcp.Request) (json.RawMessage, error) {
		id := identity.From(ctx)
		seen <- r.Method + " " + id.Principal + " " + strings.Join(id.Groups, ",")
		return json.RawMessage(`{}`), nil
	})})
	g := guard.New(guard.Options{Authenticate: func(_ *http.Request, bearer string) (*identity.Identity, error) {
		principal, group, _ := strings.Cut(bearer, "/")
		return &identity.Identity{Principal: principal, Groups: []string{group}}, nil
	}})
	hs := httptest.NewServer(g.Wrap(s))
	defer hs.Close()
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := s.Shutdown(ctx); err != nil {
			t.Error(err)
		}
	}()
	send := func(method, path, token, body string) *http.Response {
		r, err := http.NewRequestWithContext(t.Context(), method, hs.URL+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+token)
		r.Header.Set("Content-Type", "application/json")
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		return resp
	}
	stream := send("GET", "/sse", "corp:1/old", "")
	defer stream.Body.Close()
	lines := bufio.NewScanner(stream.Body)
	at := ""
	for at == "" && lines.Scan() {
		at, _ = strings.CutPrefix(lines.Text(), "data: ")
		if !strings.HasPrefix(at, "/") {
			at = ""
		}
	}
	initialize := `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2024-11-05","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`
	for _, c := range []struct {
		token, body, want string
		status            int
	}{
		{"corp:1/new", initialize, "initialize corp:1 new", 202},
		{"corp:1/newer", `{"jsonrpc":"2.0","method":"notifications/initialized"}`, "notifications/initialized corp:1 newer", 202},
		{"corp:2/new", `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`, "", 404},
	} {
		resp := send("POST", at, c.token, c.body)
		resp.Body.Close()
		if resp.StatusCode != c.status {
			t.Errorf("%s: status %d, want %d", c.token, resp.StatusCode, c.status)
		}
		if c.want != "" {
			if got := <-seen; got != c.want {
				t.Errorf("the handler saw %q, want %q", got, c.want)
			}
		}
	}
}
