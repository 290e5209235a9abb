package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

func fixedNow() time.Time { return time.Date(2026, time.May, 4, 10, 30, 0, 0, time.UTC) }

// overStdio runs a demo server on pipes and gives a client session with it. The server is
// ended, and Run's return awaited, when the test ends.
func overStdio(t testing.TB, name string, allow ...string) *mcp.ClientSession {
	t.Helper()
	serverIn, clientOut := io.Pipe()
	clientIn, serverOut := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := Run(t.Context(), name, Options{Now: fixedNow, Allow: allow}, serverIn, serverOut, nil)
		_ = serverOut.Close()
		ended <- err
	}()
	session := connect(t, &mcp.IOTransport{Reader: clientIn, Writer: clientOut}, nil)
	t.Cleanup(func() {
		_ = session.Close()
		if err := <-ended; err != nil {
			t.Errorf("Run(%q) = %v, want a clean end", name, err)
		}
	})
	return session
}

// overHTTP does the same for a server on a free port and gives its URL as well.
func overHTTP(t testing.TB, name string) (*mcp.ClientSession, string) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ready := make(chan net.Addr, 1)
	ended := make(chan error, 1)
	go func() {
		opts := Options{Listen: "127.0.0.1:0", Now: fixedNow, Ready: func(a net.Addr) { ready <- a }}
		ended <- Run(ctx, name, opts, nil, nil, nil)
	}()
	var url string
	select {
	case a := <-ready:
		url = "http://" + a.String() + "/mcp"
	case err := <-ended:
		cancel()
		t.Fatalf("Run(%q) ended at once: %v", name, err)
	}
	transport := &http.Transport{}
	session := connect(t, &mcp.StreamableClientTransport{Endpoint: url, HTTPClient: &http.Client{Transport: transport}}, nil)
	t.Cleanup(func() {
		_ = session.Close()
		transport.CloseIdleConnections()
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run(%q) = %v, want a clean end", name, err)
		}
	})
	return session, url
}

func connect(t testing.TB, transport mcp.Transport, opts *mcp.ClientOptions) *mcp.ClientSession {
	t.Helper()
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, opts)
	session, err := client.Connect(t.Context(), transport, nil)
	if err != nil {
		t.Fatal(err)
	}
	return session
}

// call calls a tool that must succeed and decodes its structured content into out.
func call(t testing.TB, session *mcp.ClientSession, tool string, args map[string]any, out any) *mcp.CallToolResult {
	t.Helper()
	result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		t.Fatalf("%s: %v", tool, err)
	}
	if result.IsError {
		t.Fatalf("%s(%v) failed: %s", tool, args, text(t, result))
	}
	data, err := json.Marshal(result.StructuredContent)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, out); err != nil {
		t.Fatalf("%s: structured content: %v", tool, err)
	}
	return result
}

// refused calls a tool that must fail with a message holding want.
func refused(t testing.TB, session *mcp.ClientSession, tool string, args map[string]any, want string) {
	t.Helper()
	result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		t.Fatalf("%s(%v): protocol error %v, want a tool error", tool, args, err)
	}
	if got := text(t, result); !result.IsError || !strings.Contains(got, want) {
		t.Errorf("%s(%v) = %q (isError %v), want an error with %q", tool, args, got, result.IsError, want)
	}
}

func text(t testing.TB, result *mcp.CallToolResult) string {
	t.Helper()
	if len(result.Content) != 1 {
		t.Fatalf("%d content blocks, want 1", len(result.Content))
	}
	block, ok := result.Content[0].(*mcp.TextContent)
	if !ok {
		t.Fatalf("content is %T, want text", result.Content[0])
	}
	return block.Text
}

func TestNamesAreServed(t *testing.T) {
	if got, want := Names(), []string{"chart", "inventory", "notes", "weather"}; !slices.Equal(got, want) {
		t.Fatalf("Names() = %v, want %v", got, want)
	}
	err := Run(t.Context(), "wether", Options{}, strings.NewReader(""), io.Discard, nil)
	if !errors.Is(err, ErrUnknownServer) || !strings.Contains(err.Error(), "chart, inventory, notes, weather") {
		t.Errorf("unknown name: %v, want ErrUnknownServer with the names", err)
	}
	err = Run(t.Context(), "notes", Options{Listen: "127.0.0.1:0"}, strings.NewReader(""), io.Discard, nil)
	if err == nil || !strings.Contains(err.Error(), "stdio") {
		t.Errorf("notes with an address: %v, want a refusal", err)
	}
	err = Run(t.Context(), "notes", Options{Allow: []string{"127.0.0.1:8088"}}, strings.NewReader(""), io.Discard, nil)
	if err == nil || !strings.Contains(err.Error(), "--allow") {
		t.Errorf("notes with servers to fetch from: %v, want a refusal", err)
	}
	err = Run(t.Context(), "chart", Options{Allow: []string{"8088"}}, strings.NewReader(""), io.Discard, nil)
	if err == nil || !strings.Contains(err.Error(), "host:port") {
		t.Errorf("chart with a port alone: %v, want a refusal", err)
	}
	err = Run(t.Context(), "inventory", Options{Listen: "127.0.0.1:99999"}, nil, nil, nil)
	if err == nil {
		t.Error("an impossible port was accepted")
	}
}

// TestEveryToolIsDescribed keeps what a newcomer searches for in shape.
func TestEveryToolIsDescribed(t *testing.T) {
	wantReadOnly := map[string]bool{
		"create_note": false, "delete_note": false, "adjust_stock": false, "create_order": false, "ship_order": false, "cancel_order": false,
	}
	wantDestructive := map[string]bool{"delete_note": true, "adjust_stock": true, "ship_order": true, "cancel_order": true}
	for _, name := range Names() {
		t.Run(name, func(t *testing.T) {
			var session *mcp.ClientSession
			if name == "inventory" {
				session, _ = overHTTP(t, name)
			} else {
				session = overStdio(t, name)
			}
			if got := session.InitializeResult(); got.ServerInfo.Name != name || got.Instructions == "" {
				t.Errorf("server says %q with instructions %q", got.ServerInfo.Name, got.Instructions)
			}
			tools := 0
			for tool, err := range session.Tools(t.Context(), nil) {
				if err != nil {
					t.Fatal(err)
				}
				tools++
				if tool.Title == "" || len(tool.Description) < 40 || !strings.HasSuffix(tool.Description, ".") {
					t.Errorf("%s: title %q, description %q", tool.Name, tool.Title, tool.Description)
				}
				readOnly, changes := wantReadOnly[tool.Name]
				if tool.Annotations.ReadOnlyHint != (readOnly || !changes) {
					t.Errorf("%s: readOnlyHint is %v", tool.Name, tool.Annotations.ReadOnlyHint)
				}
				if h := tool.Annotations.DestructiveHint; changes && (h == nil || *h != wantDestructive[tool.Name]) {
					t.Errorf("%s: destructiveHint is %v, want %v", tool.Name, h, wantDestructive[tool.Name])
				}
				schema := tool.InputSchema.(map[string]any)
				if schema["type"] != "object" {
					t.Errorf("%s: input schema of type %v", tool.Name, schema["type"])
				}
				properties, _ := schema["properties"].(map[string]any)
				for argument, s := range properties {
					if s.(map[string]any)["description"] == nil {
						t.Errorf("%s: argument %q has no description", tool.Name, argument)
					}
				}
				if tool.OutputSchema == nil {
					t.Errorf("%s: no output schema", tool.Name)
				}
			}
			if want := map[string]int{"chart": 1, "inventory": 10, "notes": 5, "weather": 3}[name]; tools != want {
				t.Errorf("%d tools, want %d", tools, want)
			}
		})
	}
}

func TestStdioEndsWithItsInput(t *testing.T) {
	var out, log bytes.Buffer
	in := strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}` + "\n")
	if err := Run(t.Context(), "weather", Options{}, in, &out, slog.New(slog.NewTextHandler(&log, nil))); err != nil {
		t.Fatalf("Run = %v, want a clean end", err)
	}
	if !strings.Contains(log.String(), "demo=weather") {
		t.Errorf("log %q does not name the server", log.String())
	}
}

func TestStdioEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	in, feed := io.Pipe()
	defer func() { _ = feed.Close() }()
	ended := make(chan error, 1)
	go func() { ended <- Run(ctx, "notes", Options{}, in, io.Discard, nil) }()
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("Run = %v, want a clean end", err)
	}
	if _, err := feed.Write([]byte("{}")); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("stdin is still open: %v", err)
	}
}
