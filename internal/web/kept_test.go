package web_test

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/dataplane"
)

// TestKeptWithoutSecrets: what the console shows and saves of a kept result has no secrets where
// results are redacted, as what an agent reads.
func TestKeptWithoutSecrets(t *testing.T) {
	p := startServing(t, "", "artifacts: {redact: true}")
	handle := p.keep()
	at := "/api/v1/artifacts/" + handle
	for _, path := range []string{at, at + "/file?format=csv", at + "/file?format=json", at + "/file?format=bytes", "/artifacts/" + handle} {
		resp, body := p.do("GET", path, staticToken, "")
		if resp.StatusCode != http.StatusOK || strings.Contains(body, "kept-pass") || !strings.Contains(body, "plain") {
			t.Errorf("%s: status %d, %.300s", path, resp.StatusCode, body)
		}
	}
}

// keep makes a result of the principal static that is held back, and returns its handle.
func (p *protected) keep() string {
	p.t.Helper()
	resp, _ := p.do("POST", "/mcp", staticToken, initialize)
	session := []string{"Mcp-Session-Id", resp.Header.Get("Mcp-Session-Id")}
	_, found := p.do("POST", "/mcp", staticToken, `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"tool_browse","arguments":{"query":"echo"}}}`, session...)
	id := regexp.MustCompile(`up:echo#[0-9a-f]+`).FindString(found)
	rows := strings.TrimSuffix(strings.Repeat(`{\\\"word\\\":\\\"plain\\\",\\\"link\\\":\\\"https://ann:kept-pass-4711@example.com/\\\"},`, 200), ",")
	_, called := p.do("POST", "/mcp", staticToken, `{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"tool_execute","arguments":{"tool_id":"`+id+`","args":{"text":"[`+strings.ReplaceAll(rows, `\\\"`, `\"`)+`]"}}}}`, session...)
	handle := regexp.MustCompile(`art_[A-Za-z0-9_-]+`).FindString(called)
	if handle == "" {
		p.t.Fatal(called)
	}
	return handle
}

// TestKeptReads: a principal that reads too many kept results gets status 503 at both paths until one
// has been read. Others read theirs.
func TestKeptReads(t *testing.T) {
	p := startServing(t, "")
	handle := p.keep()
	var open []*dataplane.KeptResult
	defer func() {
		for _, kept := range open {
			kept.Close()
		}
	}()
	for {
		kept, err := p.gateway.Data.Kept.Open(t.Context(), "static", handle)
		if err != nil {
			break
		}
		if open = append(open, kept); len(open) > 1000 {
			t.Fatal("no bound")
		}
	}
	paths := []string{"/artifacts/" + handle, "/api/v1/artifacts/" + handle + "/file?format=bytes"}
	for _, path := range paths {
		resp, body := p.do("GET", path, staticToken, "")
		if resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") != "1" || !strings.Contains(body, fmt.Sprintf("%d kept results", len(open))) {
			t.Errorf("%s after %d: status %d, %v, %.300s", path, len(open), resp.StatusCode, resp.Header, body)
		}
		if resp, body := p.do("GET", path, longToken, ""); resp.StatusCode != http.StatusNotFound {
			t.Errorf("%s of another principal: status %d, %.300s", path, resp.StatusCode, body)
		}
	}
	open[0].Close()
	open[0].Close()                                // counts once
	for _, path := range append(paths, paths...) { // each ends its read
		if resp, body := p.do("GET", path, staticToken, ""); resp.StatusCode != http.StatusOK || !strings.Contains(body, "plain") {
			t.Errorf("%s after the end of one: status %d, %.300s", path, resp.StatusCode, body)
		}
	}
	one, err := p.gateway.Data.Kept.Open(t.Context(), "static", handle)
	if err != nil {
		t.Fatal(err)
	}
	open = append(open, one)
	if kept, err := p.gateway.Data.Kept.Open(t.Context(), "static", handle); err == nil {
		kept.Close()
		t.Error("a read that is closed twice makes room for two")
	}
}
