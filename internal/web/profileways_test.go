package web_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/web/attach"
)

// upgrade asks for a connection of weir attach at a path, and returns the answer.
func (p *protected) upgrade(path, token string) (*lines, *http.Response) {
	p.t.Helper()
	u, err := url.Parse(p.base)
	if err != nil {
		p.t.Fatal(err)
	}
	conn, err := net.Dial("tcp", u.Host)
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { _ = conn.Close() })
	r, err := http.NewRequest(http.MethodGet, p.base+path, nil)
	if err != nil {
		p.t.Fatal(err)
	}
	r.Header = http.Header{"Connection": {"Upgrade"}, "Upgrade": {attach.Protocol}, "Authorization": {"Bearer " + token}}
	if err := r.Write(conn); err != nil {
		p.t.Fatal(err)
	}
	in := bufio.NewReader(conn)
	resp, err := http.ReadResponse(in, r)
	if err != nil {
		p.t.Fatal(err)
	}
	return &lines{t: p.t, conn: conn, in: in}, resp
}

// TestAttachToProfile: weir attach reaches a profile under the same rules as a URL, also after a reload.
func TestAttachToProfile(t *testing.T) {
	p := startProtected(t, narrow)
	at := func(user string, groups ...string) string { return p.token(user, "", "groups", groups) }
	l, resp := p.upgrade("/mcp/support", at("u1", "support"))
	if resp.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("the upgrade: %s", resp.Status)
	}
	if got := l.ask("initialize", hello); !strings.Contains(got, `"result"`) {
		t.Fatal(got)
	}
	if got := l.ask("tools/list", "{}"); !strings.Contains(got, `"up__echo"`) || strings.Contains(got, "up__set_tools") {
		t.Errorf("support lists: %s", got)
	}
	if _, resp := p.upgrade("/mcp/support", at("u2")); resp.StatusCode != http.StatusNotFound {
		t.Errorf("a caller of another group: %s", resp.Status)
	}
	if _, resp := p.upgrade("/mcp/nothing", at("u1", "support")); resp.StatusCode != http.StatusNotFound {
		t.Errorf("an unknown profile: %s", resp.Status)
	}
	p.reload(strings.Replace(p.text, "groups: [support]", "groups: [other]", 1))
	if got := l.ask("tools/list", "{}"); !strings.Contains(got, `there is no profile \"support\" for this caller`) {
		t.Errorf("after the groups have changed: %s", got)
	}
}

// TestSSEAtProfile: a client of the older transport reaches a profile at /sse/PROFILE. A profile that
// it may not open is as one that does not exist.
func TestSSEAtProfile(t *testing.T) {
	p := startProtected(t, narrow)
	token := p.token("u1", "", "groups", []string{"support"})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, p.base+"/sse/support", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	events := bufio.NewScanner(resp.Body)
	next := func() string {
		t.Helper()
		for events.Scan() {
			if data, ok := strings.CutPrefix(events.Text(), "data: "); ok {
				return data
			}
		}
		t.Fatalf("no event: %d %v", resp.StatusCode, events.Err())
		return ""
	}
	endpoint := next()
	if !strings.HasPrefix(endpoint, "/sse/support?sessionId=") {
		t.Fatalf("the endpoint is %s", endpoint)
	}
	if resp, body := p.do("POST", endpoint, token, initialize); resp.StatusCode != http.StatusAccepted {
		t.Fatalf("initialize: %d %s", resp.StatusCode, body)
	}
	next()
	list := `{"jsonrpc":"2.0","id":2,"method":"tools/list","params":{}}`
	for _, path := range []string{endpoint, strings.Replace(endpoint, "support", "open", 1), strings.Replace(endpoint, "/sse/support", "/messages", 1)} {
		if resp, body := p.do("POST", path, token, list); resp.StatusCode != http.StatusAccepted {
			t.Fatalf("%s: %d %s", path, resp.StatusCode, body)
		}
		if got := next(); !strings.Contains(got, `"up__echo"`) || strings.Contains(got, "up__set_tools") {
			t.Errorf("support lists to a message at %s: %s", path, got)
		}
	}
	other := p.token("u2", "")
	answer := func(path string) string {
		resp, body := p.do("GET", path, other, "")
		resp.Header.Del("Date")
		return fmt.Sprint(resp.StatusCode, resp.Header, body)
	}
	if forbidden, unknown := answer("/sse/support"), answer("/sse/nothing"); forbidden != unknown || !strings.HasPrefix(forbidden, "404") {
		t.Errorf("forbidden: %s\nunknown: %s", forbidden, unknown)
	}
	p.reload(strings.Replace(p.text, "groups: [support]", "groups: [other]", 1))
	if resp, body := p.do("POST", strings.Replace(endpoint, "/sse/support", "/messages", 1), token, list); resp.StatusCode != http.StatusAccepted {
		t.Fatalf("after the groups have changed: %d %s", resp.StatusCode, body)
	}
	if got := next(); !strings.Contains(got, "there is no profile") {
		t.Errorf("after the groups have changed: %s", got)
	}
}
