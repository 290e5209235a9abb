package cli

import (
	"crypto/sha256"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"
)

// browser is a browser with cookies, which follows redirects of the gateway.
type browser struct {
	t    *testing.T
	http *http.Client
	page string // the last one
}

func newBrowser(t *testing.T) *browser {
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &browser{t: t, http: &http.Client{Jar: jar}}
}

func (p *browser) do(req *http.Request, err error) (status int, header http.Header) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
	resp, err := p.http.Do(req.WithContext(p.t.Context()))
	if err != nil {
		p.t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	p.page = html.UnescapeString(string(data))
	return resp.StatusCode, resp.Header
}

func (p *browser) get(at string) (int, http.Header) {
	p.t.Helper()
	return p.do(http.NewRequest(http.MethodGet, at, nil))
}

// submit sends the form of the last page, with further fields.
func (p *browser) submit(at string, fields ...string) int {
	p.t.Helper()
	form := url.Values{}
	if m := regexp.MustCompile(`name="form" value="([^"]*)"`).FindStringSubmatch(p.page); m != nil {
		form.Set("form", m[1])
	}
	for i := 0; i+1 < len(fields); i += 2 {
		form.Set(fields[i], fields[i+1])
	}
	req, err := http.NewRequest(http.MethodPost, at, strings.NewReader(form.Encode()))
	if err == nil {
		u, _ := url.Parse(at)
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		req.Header.Set("Origin", u.Scheme+"://"+u.Host)
	}
	status, _ := p.do(req, err)
	return status
}

func (p *browser) want(what string) {
	p.t.Helper()
	if !strings.Contains(p.page, what) {
		p.t.Errorf("the page has no %q:\n%s", what, p.page)
	}
}

// next returns where the last page sends the browser.
func (p *browser) next() string {
	p.t.Helper()
	m := regexp.MustCompile(`<a href="([^"]*)" rel="noreferrer">`).FindStringSubmatch(p.page)
	if m == nil {
		p.t.Fatalf("the page goes nowhere:\n%s", p.page)
	}
	return m[1]
}

// TestConnectPage signs a gateway in at a server by the page that a failed call names: only an operator
// may, only with the page's form, and only in the browser that began.
func TestConnectPage(t *testing.T) {
	t.Parallel()
	idp := protected(t)
	sum := func(token string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(token))) }
	config := writeConfig(t, "weir.yaml", "listen: 127.0.0.1:0\nauth: {tokens: [{name: ann, sha256: "+sum("ann-token")+"}, {name: root, sha256: "+sum("root-token")+", operator: true}]}\n"+
		"mcpServers: {notes: {url: \""+idp.URL+"/mcp\"}}\n")
	env := []string{"XDG_STATE_HOME=" + t.TempDir(), "XDG_CONFIG_HOME=" + t.TempDir(), "DBUS_SESSION_BUS_ADDRESS=disabled:", "WEIR_TOKEN=root-token"}
	s := startWith(t, env, config, "serve", "--config", config)
	at := s.base + "/connect/notes"
	_, body := exchange(t, http.MethodPost, s.base+"/mcps/notes/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`,
		"Authorization", "Bearer ann-token", "Content-Type", "application/json", "Accept", "application/json, text/event-stream", "Mcp-Protocol-Version", "2025-11-25")
	if !strings.Contains(body, "open "+at+" or run `weir login notes`") {
		t.Errorf("the call does not name the page: %s", body)
	}

	asked := append(env, "WEIR_URL="+s.base+"/mcp")
	piped(t, "", asked, "call", "notes:sign_in").want(t, exitRefused, "open "+at+" or run", "AUTH_FAILED", "trying again may help")

	ann, root := newBrowser(t), newBrowser(t)
	status, header := ann.get(at)
	if csp := header.Get("Content-Security-Policy"); status != http.StatusOK || header.Get("X-Frame-Options") != "DENY" || !strings.Contains(csp, "frame-ancestors 'none'") || strings.Contains(csp, "script-src") || strings.Contains(ann.page, "<script") {
		t.Errorf("status %d, headers %v", status, header)
	}
	ann.want("paste the token")
	if status := ann.submit(at, "form", "guessed", "token", "root-token"); status != http.StatusForbidden {
		t.Errorf("a form of another page: %d", status)
	}
	ann.get(at)
	if status := ann.submit(at, "token", "wrong"); status != http.StatusUnauthorized {
		t.Errorf("a wrong token: %d", status)
	}
	if status := ann.submit(at, "token", "ann-token"); status != http.StatusForbidden {
		t.Errorf("a caller who is no operator: %d", status)
	}
	ann.want("an operator of the gateway makes it")

	root.get(at)
	if status := root.submit(at, "token", "root-token"); status != http.StatusOK {
		t.Errorf("the operator's token: %d", status)
	}
	root.want("You are root at this gateway")
	if status := root.submit(at, "go", "yes"); status != http.StatusOK {
		t.Fatalf("the button: %d %s", status, root.page)
	}
	back, err := idp.Browse(root.next())
	if err != nil {
		t.Fatal(err)
	}
	for name, other := range map[string]*browser{"another person": ann, "a browser without a cookie": newBrowser(t)} {
		if status, _ := other.get(back.String()); status != http.StatusBadRequest {
			t.Errorf("%s at the callback: %d", name, status)
		}
	}
	if status, _ := root.get(back.String()); status != http.StatusOK {
		t.Errorf("the callback: %d", status)
	}
	root.want("Signed in at notes")
	if status, _ := root.get(back.String()); status != http.StatusBadRequest {
		t.Errorf("the callback once more: %d", status)
	}
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(50 * time.Millisecond) { // a running gateway looks each second
		if done := piped(t, "", asked, "call", "notes:hello"); done.code == exitOK && strings.Contains(done.stdout, "welcome") {
			break
		} else if time.Now().After(deadline) {
			t.Fatalf("after the sign-in: %+v", done)
		}
	}
	piped(t, "", env, "logout", "--config", config, "notes").want(t, exitUsage, "in memory")

	if status, _ := root.get(s.base + "/connect/none"); status != http.StatusForbidden {
		t.Errorf("an unknown server: %d", status)
	}
	if status, _ := root.get(s.base + "/connect/"); status != http.StatusNotFound {
		t.Errorf("no server: %d", status)
	}
}
