package cli

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// listed returns the names of the tools that a session lists.
func listed(t *testing.T, session *sdk.ClientSession) []string {
	t.Helper()
	var names []string
	for tool, err := range session.Tools(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, tool.Name)
	}
	return names
}

// TestModesOverHTTP: each agent of one gateway has the mode that it asks for, and a client that
// checks results against their schemas can call a tool by its plain name.
func TestModesOverHTTP(t *testing.T) {
	t.Parallel()
	s := serve(t, "auto_tokens: 1\n"+oneFake)
	for query, want := range map[string]string{"": "tool_browse", "?mode=plain": "fake__echo", "?mode=proxy": "tool_hydrate", "?mode=gateway": "tool_browse", "?mode=auto": "tool_browse"} {
		t.Run("mode"+query, func(t *testing.T) {
			session, err := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(), &sdk.StreamableClientTransport{Endpoint: s.url + query, HTTPClient: httpClient(t)}, nil)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { session.Close() })
			names := listed(t, session)
			if !slices.Contains(names, want) {
				t.Fatalf("listed %q, without %s", names, want)
			}
			if query != "?mode=plain" && query != "?mode=proxy" {
				return
			}
			if !slices.Contains(names, "fake__echo") {
				t.Errorf("listed %q, without the plain name of echo", names)
			}
			if got := textOf(t, session, "fake__echo", map[string]any{"text": "as it is"}); got != "as it is" {
				t.Errorf("echo: %q", got)
			}
		})
	}
	t.Run("SSE mode=plain", func(t *testing.T) {
		session, err := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(), &sdk.SSEClientTransport{Endpoint: s.base + "/sse?mode=plain", HTTPClient: httpClient(t)}, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { session.Close() })
		if names := listed(t, session); !slices.Contains(names, "fake__echo") {
			t.Errorf("listed %q", names)
		}
	})
	for _, bad := range []struct{ query, header string }{{"?mode=fast", ""}, {"", "fast"}, {"?mode=plain", "proxy"}, {"?mode=", ""}} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+bad.query, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"ping"}`))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Content-Type", "application/json")
		request.Header.Set("Accept", "application/json, text/event-stream")
		if bad.header != "" {
			request.Header.Set("Weir-Mode", bad.header)
		}
		response, err := httpClient(t).Do(request)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(response.Body)
		response.Body.Close()
		if err != nil || response.StatusCode != http.StatusBadRequest || !strings.Contains(string(body), "mode") {
			t.Errorf("%+v: %d %s (%v)", bad, response.StatusCode, body, err)
		}
	}
}

// TestAutoIsTheDefault: a gateway with few tools lists them by themselves. A client that knows the
// three meta-tools can still call them.
func TestAutoIsTheDefault(t *testing.T) {
	t.Parallel()
	session, _ := stdioSession(t, "auto_tokens: 1000000\n"+oneFake)
	if names := listed(t, session); !slices.Contains(names, "fake__echo") || slices.Contains(names, "tool_execute") {
		t.Errorf("listed %q", names)
	}
	if got := textOf(t, session, "tool_execute", map[string]any{"tool_id": idOf(t, session, "fake:echo"), "args": map[string]any{"text": "hello"}}); got != "hello" {
		t.Errorf("tool_execute: %q", got)
	}
}

func TestPlainModeOnStandardInput(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"plain", "auto"} {
		session, _ := stdioSession(t, "auto_tokens: 1000000\n"+oneFake, "--mode", mode)
		if names := listed(t, session); !slices.Contains(names, "fake__echo") {
			t.Errorf("mode %s lists %q", mode, names)
		}
	}
}

// TestCommandsReachAPlainGateway: the commands speak to the meta-tools, whatever the agents see.
func TestCommandsReachAPlainGateway(t *testing.T) {
	t.Parallel()
	s := serve(t, "mode: plain\n"+oneFake)
	weir(t, "search", "echo", "--url", s.url).want(t, exitOK, "fake:echo")
	weir(t, "call", "fake:echo", "--arg", "text=hello", "--url", s.url).want(t, exitOK, "hello")
}
