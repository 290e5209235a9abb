package cli

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
)

// look asks for a path with a token, "" for none.
func (s *server) look(path, token string, header ...string) (int, string) {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, s.base+path, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	for i := 0; i < len(header); i += 2 {
		if header[i] == "Host" {
			r.Host = header[i+1]
		}
		r.Header.Set(header[i], header[i+1])
	}
	resp, err := httpClient(s.t).Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

// TestConsole: the page and its data, what a call looks like in it, and that
// nobody else's page reaches it. Switched off while weir runs, it is gone and its
// streams end.
func TestConsole(t *testing.T) {
	t.Parallel()
	s := serve(t, oneFake+"hub: {}\n")
	echo := s.tool("fake:echo")
	for path, want := range map[string]string{
		"/console": "console/static/console.js", "/console/static/api.js": "sessionStorage", "/api/v1/overview": `"name":"fake"`,
		"/api/v1/catalog?query=echo": echo, "/api/v1/catalog/entry?id=" + strings.ReplaceAll(echo, "#", "%23"): "input_schema",
		"/api/v1/artifacts": `"artifacts":[]`, "/api/v1/offices": `"hub":true`,
	} {
		if code, body := s.look(path, ""); code != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("%s: status %d, no %q in %.300s", path, code, want, body)
		}
	}
	if _, body := s.look("/", "", "Accept", "text/html"); !strings.Contains(body, `href="console"`) {
		t.Error("the start page does not lead to the console")
	}
	for _, header := range [][]string{{"Origin", "https://evil.example"}, {"Host", "evil.example"}} {
		if code, _ := s.look("/api/v1/overview", "", header...); code != http.StatusForbidden {
			t.Errorf("%s: status %d", header, code)
		}
	}
	resp, err := httpClient(t).Get(s.base + "/api/v1/calls/stream")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	secret := "an argument that nobody else sees"
	if code, text, err := post(t.Context(), httpClient(t), s.url, "tool_execute", modernCall(1, "tool_execute", map[string]any{"tool_id": echo, "args": map[string]string{"text": secret}})); err != nil || code != http.StatusOK {
		t.Fatal(code, text, err)
	}
	lines := bufio.NewScanner(resp.Body)
	var seen string
	for lines.Scan() && !strings.Contains(seen, echo) {
		seen += lines.Text() + "\n"
	}
	if !strings.Contains(seen, `"meta_tool":"tool_execute"`) || strings.Contains(seen, secret) {
		t.Errorf("the stream tells %s", seen)
	}
	text, err := os.ReadFile(s.config)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(s.config, append(text, "\nconsole: false\n"...), 0o600); err != nil {
		t.Fatal(err)
	}
	for lines.Scan() { // until the stream ends
		continue
	}
	for _, path := range []string{"/console", "/console/static/console.js"} {
		if code, _ := s.look(path, ""); code != http.StatusNotFound {
			t.Errorf("switched off, %s: status %d", path, code)
		}
	}
	if _, body := s.look("/", "", "Accept", "text/html"); strings.Contains(body, "/console") {
		t.Error("the start page leads to a console that is switched off")
	}
}

// TestConsoleWithTokens: the page is anybody's, its data are for tokens that open
// the whole gateway.
func TestConsoleWithTokens(t *testing.T) {
	t.Parallel()
	hash := func(token string) string {
		sum := sha256.Sum256([]byte(token))
		return hex.EncodeToString(sum[:])
	}
	const whole, single = "whole-0123456789-0123456789", "single-0123456789-0123456789"
	s := serve(t, fmt.Sprintf("%s\nauth: {tokens: [{name: ann, sha256: %s}, {name: bob, sha256: %s, agents: [fake]}]}\n", oneFake, hash(whole), hash(single)))
	if code, body := s.look("/console", ""); code != http.StatusOK || strings.Contains(body, "fake") {
		t.Errorf("the page: status %d", code)
	}
	for _, path := range []string{"overview", "catalog", "catalog/entry?id=x", "calls", "calls/stream", "figures", "offices", "artifacts", "artifacts/x", "setup", "openapi.json"} {
		for token, want := range map[string]int{"": http.StatusUnauthorized, "wrong": http.StatusUnauthorized, single: http.StatusForbidden} {
			if code, body := s.look("/api/v1/"+path, token); code != want {
				t.Errorf("%s with token %q: status %d, want %d: %.200s", path, token, code, want, body)
			}
		}
	}
	if code, body := s.look("/api/v1/overview", whole); code != http.StatusOK || !strings.Contains(body, `"own":true`) {
		t.Errorf("with the token: status %d, %.300s", code, body)
	}
}
