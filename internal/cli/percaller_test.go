package cli

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/weir-mcp/weir/internal/gateway"
	"github.com/weir-mcp/weir/internal/testkit/oauthtest"
)

// perCaller starts a server that wants a sign-in, and a gateway for ann and bob, each of whom signs in.
func perCaller(t *testing.T) (idp *oauthtest.Server, s *server, config string, env []string, signIn func(name string)) {
	t.Helper()
	idp = protected(t)
	sum := func(token string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(token))) }
	config = writeConfig(t, "weir.yaml", "listen: 127.0.0.1:0\nauth: {tokens: [{name: ann, sha256: "+sum("ann-token")+"}, {name: bob, sha256: "+sum("bob-token")+"}]}\n"+
		"credentials: {store: \"file:"+t.TempDir()+"\", keys: [0123456789abcdef]}\n"+
		"mcpServers: {notes: {url: \""+idp.URL+"/mcp\", credentials: user}}\n")
	env = []string{"XDG_STATE_HOME=" + t.TempDir(), "XDG_CONFIG_HOME=" + t.TempDir(), "DBUS_SESSION_BUS_ADDRESS=disabled:"}
	s = startWith(t, env, config, "serve", "--config", config)
	return idp, s, config, env, func(name string) {
		t.Helper()
		p, at := newBrowser(t), s.base+"/connect/notes"
		p.get(at)
		if status := p.submit(at, "token", name+"-token"); status != http.StatusOK {
			t.Fatalf("the token of %s: %d %s", name, status, p.page)
		}
		p.submit(at, "go", "yes")
		back, err := idp.Browse(p.next())
		if err != nil {
			t.Fatal(err)
		}
		if status, _ := p.get(back.String()); status != http.StatusOK {
			t.Fatalf("the callback: %d %s", status, p.page)
		}
	}
}

// TestSignInOfEachCaller signs two callers in at one server: each one's calls carry its own token, on the
// page of the gateway and at /mcps/NAME/mcp, and a caller without a sign-in reads how to get one.
func TestSignInOfEachCaller(t *testing.T) {
	t.Parallel()
	idp, s, config, env, signIn := perCaller(t)
	as := func(name string) []string {
		return append(env[:len(env):len(env)], "WEIR_TOKEN="+name+"-token", "WEIR_URL="+s.base+"/mcp")
	}
	where := "open " + s.base + "/connect/notes or run `weir login notes`"
	piped(t, "", as("ann"), "call", "notes:sign_in").want(t, exitRefused, where, "AUTH_FAILED", "trying again may help")

	signIn("ann")
	leak := func(name string) (token string) {
		t.Helper()
		for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(50 * time.Millisecond) { // a running gateway looks each second
			done := piped(t, "", as(name), "call", "notes:leak")
			if _, token, ok := strings.Cut(done.stdout, "you sent "); done.code == exitOK && ok {
				return token
			}
			if time.Now().After(deadline) {
				t.Fatalf("%s is signed in: %+v", name, done)
			}
		}
	}
	ofAnn := leak("ann")
	piped(t, "", as("bob"), "call", "notes:sign_in").want(t, exitRefused, where, "AUTH_FAILED")
	if done := piped(t, "", as("bob"), "call", "notes:leak"); !strings.Contains(done.stderr, "no tool has the id") {
		t.Errorf("bob calls what ann's account lists: %+v", done)
	}
	_, body := exchange(t, http.MethodPost, s.base+"/mcps/notes/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`,
		"Authorization", "Bearer bob-token", "Content-Type", "application/json", "Accept", "application/json, text/event-stream", "Mcp-Protocol-Version", "2025-11-25")
	if !strings.Contains(body, where) {
		t.Errorf("bob at /mcps/notes/mcp: %s", body)
	}

	signIn("bob")
	if ofBob := leak("bob"); ofBob == ofAnn || ofBob == "" || leak("ann") != ofAnn {
		t.Error("two callers have one token")
	}
	_, body = exchange(t, http.MethodPost, s.base+"/mcps/notes/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"leak","arguments":{}}}`,
		"Authorization", "Bearer ann-token", "Content-Type", "application/json", "Accept", "application/json, text/event-stream", "Mcp-Protocol-Version", "2025-11-25")
	if !strings.Contains(body, "you sent "+strings.TrimSpace(ofAnn)) {
		t.Errorf("ann at /mcps/notes/mcp: %s", body)
	}
	piped(t, "", env, "credentials", "ls", "--config", config).want(t, exitOK, "notes", "ann", "bob", idp.URL)

	piped(t, "", env, "logout", "--config", config, "notes", "--as", "ann").want(t, exitOK, "Signed out of notes.")
	piped(t, "", env, "logout", "--config", config, "notes", "--as", "ann").want(t, exitUsage, "no sign-in")
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		if done := piped(t, "", as("ann"), "call", "notes:sign_in"); strings.Contains(done.stdout+done.stderr, "AUTH_FAILED") {
			break
		} else if time.Now().After(deadline) {
			t.Fatalf("ann is signed out: %+v", done)
		}
	}
	if leak("bob") == "" {
		t.Error("bob is signed out, too")
	}
	piped(t, "", env, "login", "--config", config, "notes", "--no-browser").want(t, exitUsage, "--as PRINCIPAL", "/connect/NAME")

	piped(t, "", env, "logout", "--config", config, "--all", "--as", "ann").want(t, exitOK, "There is no sign-in.")
	signIn("ann")
	revoked := idp.Count("revoked")
	piped(t, "", env, "logout", "--config", config, "--all").want(t, exitOK, "Signed out of notes, notes.")
	if n := idp.Count("revoked") - revoked; n != 2 {
		t.Errorf("%d of two sign-ins are revoked", n)
	}
	piped(t, "", env, "credentials", "ls", "--config", config, "--json").want(t, exitOK, "[]")
}

// TestLoginOfLocalPerson signs the person of a gateway in by the command: the sign-in is the one that the
// calls of that person use.
func TestLoginOfLocalPerson(t *testing.T) {
	t.Parallel()
	idp := protected(t)
	idp.Secret = "hunter2-hunter2"
	env := []string{"XDG_STATE_HOME=" + t.TempDir(), "XDG_CONFIG_HOME=" + t.TempDir(), "DBUS_SESSION_BUS_ADDRESS=disabled:"}
	config := writeConfig(t, "weir.yaml", "listen: 127.0.0.1:0\nmcpServers: {notes: {url: \""+idp.URL+"/mcp\", credentials: user}, other: {url: \""+idp.URL+"/mcp\"}}\n")
	s := startWith(t, env, config, "serve", "--config", config)
	s.await("the servers need a sign-in", func(h gateway.Health) bool {
		return h.Upstreams["notes"].State == "sign_in" && h.Upstreams["other"].State == "sign_in"
	})
	piped(t, "", env, "login", "--config", config, "notes", "--as", "ann").want(t, exitUsage, "leave out --as")
	piped(t, "", env, "login", "--config", config, "other", "--as", "local").want(t, exitUsage, "--as has no effect")
	logIn(t, idp, env, "--config", config, "notes", "--no-browser").want(t, exitOK, "Signed in at notes.")
	s.await("the server is signed in", func(h gateway.Health) bool { return h.Upstreams["notes"].Tools == 2 })
	piped(t, "", append(env, "WEIR_URL="+s.base+"/mcp"), "call", "notes:hello").want(t, exitOK, "welcome")
	piped(t, "", env, "credentials", "ls", "--json").want(t, exitOK, `"principal": "local"`)

	other := writeConfig(t, "weir.yaml", "mcpServers: {notes: {url: \""+idp.URL+"/mcp\", credentials: user, oauth: {client_id: configured, client_secret: hunter2-hunter2, issuer: \""+idp.URL+"\"}}}\n")
	if f := logIn(t, idp, env, "--config", other, "notes", "--no-browser").want(t, exitOK); !strings.Contains(f.stderr, "notes needs a new sign-in: ") {
		t.Errorf("weir login says %q of the sign-in of another client", f.stderr)
	}
}

// TestCredentialOfEachCaller stores a text for two callers: each one's calls show the server its own, and a
// caller without one reads which command stores it.
func TestCredentialOfEachCaller(t *testing.T) {
	t.Parallel()
	server := sdk.NewServer(&sdk.Implementation{Name: "jira", Version: "1"}, nil)
	sdk.AddTool(server, &sdk.Tool{Name: "leak"}, func(_ context.Context, r *sdk.CallToolRequest, _ struct{}) (*sdk.CallToolResult, any, error) {
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "you sent " + strings.Join(strings.Split(r.Extra.Header.Get("X-Key"), ""), "-")}}}, nil, nil
	})
	jira := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, &sdk.StreamableHTTPOptions{Stateless: true}))
	t.Cleanup(jira.Close)
	sum := func(token string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(token))) }
	config := writeConfig(t, "weir.yaml", "listen: 127.0.0.1:0\nauth: {tokens: [{name: ann, sha256: "+sum("ann-token")+"}, {name: bob, sha256: "+sum("bob-token")+"}]}\n"+
		"credentials: {store: \"file:"+t.TempDir()+"\", keys: [0123456789abcdef]}\n"+
		"mcpServers: {jira: {url: \""+jira.URL+"\", credentials: user, headers: {X-Key: \"${user:jira}\"}}}\n")
	env := []string{"XDG_STATE_HOME=" + t.TempDir(), "XDG_CONFIG_HOME=" + t.TempDir(), "DBUS_SESSION_BUS_ADDRESS=disabled:"}
	s := startWith(t, env, config, "serve", "--config", config)
	as := func(name string) []string {
		return append(env[:len(env):len(env)], "WEIR_TOKEN="+name+"-token", "WEIR_URL="+s.base+"/mcp")
	}
	piped(t, "", as("ann"), "call", "jira:sign_in").want(t, exitRefused, "AUTH_FAILED", "weir credentials set jira --as ann")
	piped(t, "secret1\n", env, "credentials", "set", "jira", "--config", config).want(t, exitUsage, "--as PRINCIPAL")
	piped(t, "\n", env, "credentials", "set", "jira", "--config", config, "--as", "ann").want(t, exitUsage, "no value")
	piped(t, "secret1\n", env, "credentials", "set", "no name", "--config", config, "--as", "ann").want(t, exitUsage, "cannot be the name")
	piped(t, "secret1\n", env, "credentials", "set", "jira", "--config", config, "--as", "ann").want(t, exitOK, "stored for the caller ann", "${user:jira}")
	calls := func(name, tool, want string) {
		t.Helper()
		for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(50 * time.Millisecond) {
			done := piped(t, "", as(name), "call", tool)
			if strings.Contains(done.stdout+done.stderr, want) {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("%s: %+v", name, done)
			}
		}
	}
	calls("ann", "jira:leak", "you sent s-e-c-r-e-t-1")
	calls("bob", "jira:sign_in", "weir credentials set jira --as bob")
	piped(t, "secret2\n", env, "credentials", "set", "jira", "--config", config, "--as", "bob").want(t, exitOK)
	calls("bob", "jira:leak", "you sent s-e-c-r-e-t-2")
	calls("ann", "jira:leak", "you sent s-e-c-r-e-t-1")
	piped(t, "secret3\n", env, "credentials", "set", "jira", "--config", config, "--as", "ann").want(t, exitOK)
	calls("ann", "jira:leak", "you sent s-e-c-r-e-t-3")
	piped(t, "", env, "credentials", "ls", "--config", config).want(t, exitOK, "jira", "ann", "bob", "${user:jira}")
	piped(t, "", env, "credentials", "rm", "jira", "--config", config, "--as", "bob").want(t, exitOK, "removed")
	calls("bob", "jira:sign_in", "AUTH_FAILED")
	piped(t, "", env, "credentials", "rm", "jira", "--config", config, "--as", "bob").want(t, exitUsage, "no credential")
}
