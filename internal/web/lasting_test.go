package web_test

import (
	"bufio"
	"crypto/sha256"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-mcp/weir/internal/config"
)

// TestStreamsEndWithTheirTokens: streams end on every way when a reload takes the token of their caller,
// and those of other callers go on.
func TestStreamsEndWithTheirTokens(t *testing.T) {
	p := startProtected(t)
	resp, _ := p.do("POST", "/mcp", staticToken, initialize)
	session := resp.Header.Get("Mcp-Session-Id")
	resp, _ = p.do("POST", "/mcps/up/mcp", staticToken, initialize)
	direct := resp.Header.Get("Mcp-Session-Id")
	streams := map[string]*bufio.Reader{
		"/mcp":         openStream(t, p, "/mcp", staticToken, "Mcp-Session-Id", session),
		"/mcps/up/mcp": openStream(t, p, "/mcps/up/mcp", staticToken, "Mcp-Session-Id", direct),
		"/sse":         openSSE(t, p, staticToken).in,
	}
	other := openSSE(t, p, longToken)
	next := strings.Replace(p.text, "{name: static,", "{name: renamed,", 1)
	if next == p.text {
		t.Fatal(p.text)
	}
	c, _, err := config.Parse("weir.yaml", []byte(next), config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	p.server.Apply(nil, c)
	for way, stream := range streams {
		if _, err := io.ReadAll(stream); err != nil && way != "/mcps/up/mcp" { // forwarded: cut off
			t.Errorf("%s: %v", way, err)
		}
	}
	other.ask(longToken, `{"jsonrpc":"2.0","id":%d,"method":"ping"}`)
}

// TestStreamEndsWithTheSignOut: a person's streams of the console end when the person signs out.
func TestStreamEndsWithTheSignOut(t *testing.T) {
	p := startProtected(t)
	p.idp.SetIDToken(map[string]any{"sub": "ada", "groups": []string{"sre"}})
	ada := newConsoleBrowser(t, p.base)
	who := ada.signIn()
	r, err := http.NewRequestWithContext(t.Context(), "GET", p.base+"/api/v1/calls/stream", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := ada.browser.Do(r)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%v, %v", resp, err)
	}
	defer resp.Body.Close()
	if status, _ := ada.ask(http.MethodDelete, "/login", "Weir-Login", who.Token); status != http.StatusOK {
		t.Fatalf("sign-out: %d", status)
	}
	rest, err := io.ReadAll(resp.Body)
	if err != nil || !strings.HasSuffix(string(rest), "\n\n") || !strings.Contains(string(rest), "event: end\ndata: {\"message\":") {
		t.Errorf("%v: %s", err, rest)
	}
}

// TestSubscriptionEndsWithTheToken: a subscription of 2026-07-28 ends with an error when the token has
// expired, and a client of weir attach hears nothing more.
func TestSubscriptionEndsWithTheToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		end := time.Now().Add(time.Hour)
		server, closeServer := inMemory(t, fmt.Sprintf("agents: {}\nauth: {tokens: [{name: ann, sha256: %x, expires: %q}]}\n", sha256.Sum256([]byte("t0ken")), end.UTC().Format(time.RFC3339)))
		defer closeServer()
		dial := func() net.Conn {
			conn, err := server.DialContext(t.Context(), "", "")
			if err != nil {
				t.Fatal(err)
			}
			return conn
		}
		const listen = `{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}},"notifications":{"toolsListChanged":true}}`
		conn := dial()
		defer conn.Close()
		attached := attachTo(t, conn, "t0ken")
		plain := dial()
		defer plain.Close()
		body := `{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":` + listen + `}`
		_, err := fmt.Fprintf(plain, "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer t0ken\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\nMcp-Protocol-Version: 2026-07-28\r\nMcp-Method: subscriptions/listen\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
		if err != nil {
			t.Fatal(err)
		}
		answers := make(chan string, 2)
		go func() { answers <- attached.ask("subscriptions/listen", listen) }()
		go func() {
			raw, _ := io.ReadAll(plain)
			answers <- string(raw)
		}()
		time.Sleep(time.Until(end) - time.Second)
		synctest.Wait()
		if len(answers) != 0 {
			t.Fatalf("ended before the token: %s", <-answers)
		}
		time.Sleep(2 * time.Second)
		for range 2 {
			if got := <-answers; !strings.Contains(got, "open it again with a new one") || !strings.Contains(got, `"unauthorized"`) {
				t.Errorf("the subscription: %s", got)
			}
		}
	})
}
