package web_test

import (
	"bufio"
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/testkit/memnet"
	"github.com/weir-mcp/weir/internal/web"
	"github.com/weir-mcp/weir/internal/web/api"
	"github.com/weir-mcp/weir/internal/web/attach"
)

// lines is a client of weir attach on a connection.
type lines struct {
	t    testing.TB
	conn net.Conn
	in   *bufio.Reader
	n    int
}

// attachTo upgrades a connection with a token.
func attachTo(t *testing.T, conn net.Conn, token string) *lines {
	t.Helper()
	t.Cleanup(func() { _ = conn.Close() })
	l := &lines{t: t, conn: conn, in: bufio.NewReader(conn)}
	r, err := http.NewRequest("GET", "http://127.0.0.1/mcp", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header = http.Header{"Connection": {"Upgrade"}, "Upgrade": {attach.Protocol}, "Authorization": {"Bearer " + token}}
	if err := r.Write(conn); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(l.in, r)
	if err != nil || resp.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("the upgrade: %v, %v", resp, err)
	}
	return l
}

// ask sends a request and returns the line of its answer.
func (l *lines) ask(method, params string) string {
	l.t.Helper()
	l.n++
	if _, err := fmt.Fprintf(l.conn, `{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`+"\n", l.n, method, params); err != nil {
		l.t.Fatal(err)
	}
	for want := fmt.Sprintf(`"id":%d`, l.n); ; {
		line, err := l.in.ReadString('\n')
		if err != nil {
			l.t.Fatal(err)
		}
		if strings.Contains(line, want) {
			return line
		}
	}
}

const hello = `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}`

// TestAttachedTokenExpires: a connection of weir attach outlives its token, but no request passes
// then.
func TestAttachedTokenExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		end := time.Now().Add(time.Hour)
		server, closeServer := inMemory(t, fmt.Sprintf("agents: {}\nauth: {tokens: [{name: ann, sha256: %x, expires: %q}]}\n", sha256.Sum256([]byte("t0ken")), end.UTC().Format(time.RFC3339)))
		defer closeServer()
		conn, err := server.DialContext(t.Context(), "", "")
		if err != nil {
			t.Fatal(err)
		}
		l := attachTo(t, conn, "t0ken")
		defer conn.Close()
		if got := l.ask("initialize", hello); !strings.Contains(got, `"result"`) {
			t.Fatal(got)
		}
		time.Sleep(time.Until(end) - time.Millisecond)
		if got := l.ask("ping", "{}"); !strings.Contains(got, `"result"`) {
			t.Errorf("before the end: %s", got)
		}
		time.Sleep(time.Millisecond)
		for _, method := range []string{"ping", "tools/list"} {
			if got := l.ask(method, "{}"); !strings.Contains(got, "has expired") || !strings.Contains(got, `"unauthorized"`) {
				t.Errorf("%s after the end: %s", method, got)
			}
		}
	})
}

// inMemory serves a gateway in memory, in the bubble of the caller.
func inMemory(t *testing.T, text string) (network *memnet.Listener, end func()) {
	t.Helper()
	g, c := gatewayOf(t, text)
	handler := web.NewHandler(g, c, "http://127.0.0.1", api.Machine{}, slog.New(slog.DiscardHandler))
	network = memnet.New()
	server := &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}
	ended := make(chan struct{})
	go func() { defer close(ended); _ = server.Serve(network) }()
	return network, func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		_ = handler.Shutdown(ctx)
		_ = server.Close()
		<-ended
		g.Close(ctx)
	}
}

// TestAttachedFollowsTheConfiguration: what a reload takes from a token, it takes from connections
// that began with it.
func TestAttachedFollowsTheConfiguration(t *testing.T) {
	p := startProtected(t)
	connect := func(token string) *lines {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(p.base, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		l := attachTo(t, conn, token)
		if got := l.ask("initialize", hello); !strings.Contains(got, `"result"`) {
			t.Fatal(got)
		}
		return l
	}
	static, long, jwt := connect(staticToken), connect(longToken), connect(p.token("u1", "/mcp"))
	change := func(old, next string) {
		t.Helper()
		if !strings.Contains(p.text, old) {
			t.Fatalf("no %q in %s", old, p.text)
		}
		c, _, err := config.Parse("weir.yaml", []byte(strings.Replace(p.text, old, next, 1)), config.Options{})
		if err != nil {
			t.Fatal(err)
		}
		p.server.Apply(nil, c)
	}
	for name, l := range map[string]*lines{"static": static, "long": long, "jwt": jwt} {
		if got := l.ask("tools/list", "{}"); !strings.Contains(got, `"result"`) {
			t.Errorf("%s before: %s", name, got)
		}
	}
	change("{name: static,", "{name: renamed,")
	if got := static.ask("tools/list", "{}"); !strings.Contains(got, "another principal") {
		t.Errorf("a renamed token: %s", got)
	}
	change("{name: long,", `{name: long, agents: ["x-*"],`)
	if got := long.ask("tools/list", "{}"); !strings.Contains(got, "single agents") {
		t.Errorf("a token that is for single agents now: %s", got)
	}
	if got := static.ask("tools/list", "{}"); !strings.Contains(got, `"result"`) {
		t.Errorf("the token has its name again: %s", got)
	}
	change("scopes: [mcp]", "scopes: [mcp, more]")
	if got := jwt.ask("tools/list", "{}"); !strings.Contains(got, `"insufficient_scope"`) {
		t.Errorf("a scope that is needed now: %s", got)
	}
}
