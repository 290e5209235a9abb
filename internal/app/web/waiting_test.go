package web_test

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/app/web"
)

// TestWaiting: a node without its store answers each request at once, and its listener is then as before.
func TestWaiting(t *testing.T) {
	t.Parallel()
	l, err := web.Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	waiting := web.Wait(l, slog.New(slog.DiscardHandler))
	unused, err := net.Dial("tcp", l.Addr().String()) // a client that connects and sends nothing
	if err != nil {
		t.Fatal(err)
	}
	defer unused.Close()
	client := &http.Client{Timeout: 20 * time.Second}
	defer client.CloseIdleConnections()
	post := func() (*http.Response, []byte) {
		t.Helper()
		resp, err := client.Post(l.Local()+"/mcp", "application/json", strings.NewReader(`{"jsonrpc":"2.0","id":"one","method":"tools/list"}`))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp, body
	}
	resp, body := post()
	var answer struct {
		ID    string `json:"id"`
		Error struct {
			Code    int    `json:"code"`
			Message string `json:"message"`
			Data    struct {
				Kind string `json:"kind"`
			} `json:"data"`
		} `json:"error"`
	}
	if err := json.Unmarshal(body, &answer); err != nil || resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") != "2" ||
		answer.ID != "one" || answer.Error.Code != -32603 || answer.Error.Data.Kind != "store_unavailable" || !strings.Contains(answer.Error.Message, "operators") {
		t.Errorf("a request: %d %v %s %v", resp.StatusCode, resp.Header, body, err)
	}
	ready, err := client.Get(l.Local() + "/readyz")
	if err != nil {
		t.Fatal(err)
	}
	reason, _ := io.ReadAll(ready.Body)
	ready.Body.Close()
	if ready.StatusCode != http.StatusServiceUnavailable || !bytes.Contains(reason, []byte("store")) {
		t.Errorf("/readyz: %d %s", ready.StatusCode, reason)
	}
	began := time.Now()
	waiting.End()
	if took := time.Since(began); took > 4*time.Second { // with Shutdown alone: 5 s for the unused connection
		t.Errorf("the end took %v", took)
	}
	next := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })}
	served := make(chan struct{})
	go func() { defer close(served); _ = next.Serve(l) }()
	if resp, body = post(); resp.StatusCode != http.StatusTeapot {
		t.Errorf("the next server: %d %s", resp.StatusCode, body)
	}
	next.Close()
	<-served
}
