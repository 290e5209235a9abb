package cli

import (
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestOpen: the browser gets the address of the console without any credential, and the page needs no
// token.
func TestOpen(t *testing.T) {
	t.Parallel()
	needsShell(t)
	s := serve(t, tokens("ann:")+"mcpServers: {}\n")
	u, err := url.Parse(s.url)
	if err != nil {
		t.Fatal(err)
	}
	u.User, u.RawQuery = url.UserPassword("ann", "sesame"), "token=sesame"
	dir := t.TempDir()
	browser, opened := filepath.Join(dir, "browser"), filepath.Join(dir, "opened")
	if err := os.WriteFile(browser, []byte("#!/bin/sh\nprintf '%s|' \"$#\" \"$@\" >"+opened+".new && mv "+opened+".new "+opened+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	want := s.base + "/console"
	weir(t, "BROWSER="+browser, "WEIR_TOKEN=sesame", "open", "--url", u.String()).want(t, exitOK, want+" is open in your browser")
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		got, err := os.ReadFile(opened)
		if string(got) == "1|"+want+"|" {
			break
		}
		if err == nil || time.Now().After(end) {
			t.Fatalf("the browser got %q, %v", got, err)
		}
	}
	if status, page := get(t, want); status != 200 || !strings.Contains(page, "<title>") {
		t.Errorf("the page: %d %s", status, page)
	}

	none := []string{"BROWSER=", "DISPLAY=", "WAYLAND_DISPLAY=", "@" + filepath.Dir(s.config), "open"}
	for name, args := range map[string][]string{"no browser": none, "none wanted": append([]string{"BROWSER=" + browser}, append(none[1:], "--no-browser")...)} {
		if f := weir(t, args...).want(t, exitOK); f.stdout != want+"\n" {
			t.Errorf("%s: %q", name, f.stdout)
		}
	}
	// The command of the gateway's user gets a code; the code becomes a token that operates.
	told := weir(t, none...).want(t, exitOK).stderr
	_, code, found := strings.Cut(told, "within a minute: ")
	if !found {
		t.Fatalf("no code in %q", told)
	}
	status, answer := sendJSON(t, s.base+"/api/v1/sessions", `{"code":"`+strings.TrimSpace(code)+`"}`)
	if status != 200 {
		t.Fatalf("the code is answered with %d %s", status, answer)
	}
	if status, answer := s.look("/api/v1/definitions", decode[map[string]string](t, answer)["token"]); status != 200 {
		t.Errorf("the token is answered with %d %s", status, answer)
	}
	if f := weir(t, append(none, "--json")...).want(t, exitOK); decode[map[string]string](t, f.stdout)["url"] != want {
		t.Errorf("--json: %q", f.stdout)
	}
}

// sendJSON posts JSON without a credential.
func sendJSON(t *testing.T, url, body string) (int, string) {
	t.Helper()
	resp, err := httpClient(t).Post(url, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(answer)
}

// TestOpenWithoutAConsole: what is not there is not opened.
func TestOpenWithoutAConsole(t *testing.T) {
	t.Parallel()
	s := serve(t, "console: false\nmcpServers: {}\n")
	weir(t, "open", "--url", s.url).want(t, exitRefused, "serves no console", "console: true")
	weir(t, "open", "--url", "file://here/mcp").want(t, exitUsage, "no http or https URL")
	weir(t, "open", "--url", "http://127.0.0.1:1/mcp").want(t, exitUnavailable, "cannot reach the gateway")
	weir(t, "@"+filepath.Dir(writeConfig(t, "weir.yaml", "listen: 127.0.0.1:0\nmcpServers: {}\n")), "open").want(t, exitUnavailable, "no gateway runs", "weir serve")
}
