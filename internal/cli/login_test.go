package cli

import (
	"bufio"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/weir-mcp/weir/internal/gateway"
	"github.com/weir-mcp/weir/internal/signin/oauth"
	"github.com/weir-mcp/weir/internal/signin/vault"
	"github.com/weir-mcp/weir/internal/testkit/oauthtest"
)

// protected starts an MCP server that wants a sign-in.
func protected(t *testing.T) *oauthtest.Server {
	t.Helper()
	idp := oauthtest.New()
	t.Cleanup(func() {
		idp.Close()
		if p := idp.Problems(); len(p) > 0 {
			t.Errorf("the authorization server complains: %q", p)
		}
	})
	server := sdk.NewServer(&sdk.Implementation{Name: "notes", Version: "1"}, nil)
	sdk.AddTool(server, &sdk.Tool{Name: "hello"}, func(context.Context, *sdk.CallToolRequest, struct{}) (*sdk.CallToolResult, any, error) {
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "welcome"}}}, nil, nil
	})
	sdk.AddTool(server, &sdk.Tool{Name: "leak"}, func(_ context.Context, r *sdk.CallToolRequest, _ struct{}) (*sdk.CallToolResult, any, error) {
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "you sent " + strings.TrimPrefix(r.Extra.Header.Get("Authorization"), "Bearer ")}}}, nil, nil
	})
	idp.Handler = sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, &sdk.StreamableHTTPOptions{Stateless: true})
	return idp
}

// logIn runs weir login with a person who follows the address that it prints.
func logIn(t *testing.T, idp *oauthtest.Server, env []string, args ...string) finished {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), weirBin, append([]string{"login"}, args...)...)
	cmd.Env = environment(env...)
	var out lockedBuffer
	cmd.Stdout = &out
	stderr, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	lines := bufio.NewScanner(io.TeeReader(stderr, &said))
	for lines.Scan() {
		at := strings.TrimSpace(lines.Text())
		if strings.Contains(at, "enter the code") {
			idp.Agree(true)
		}
		if !strings.HasPrefix(at, "http") {
			continue
		}
		back, err := idp.Browse(at)
		if err != nil {
			t.Fatal(err)
		}
		forged := *back
		forged.RawQuery = "state=guessed&code=x"
		if status, _ := get(t, forged.String()); status != http.StatusBadRequest {
			t.Errorf("a forged callback is answered with %d", status)
		}
		if status, page := get(t, back.String()); status != http.StatusOK || !strings.Contains(page, "signed in") {
			t.Errorf("the page says %d %q", status, page)
		}
	}
	_ = cmd.Wait() // the exit code tells
	return endOf(cmd, out.String(), said.String())
}

// TestLogin walks from a server that wants a sign-in to a call, with a gateway that runs meanwhile, and
// back.
func TestLogin(t *testing.T) {
	t.Parallel()
	for _, device := range []bool{false, true} {
		t.Run(map[bool]string{false: "browser", true: "device"}[device], func(t *testing.T) {
			t.Parallel()
			idp := protected(t)
			state, home := t.TempDir(), t.TempDir()
			env := []string{"XDG_STATE_HOME=" + state, "XDG_CONFIG_HOME=" + home, "DBUS_SESSION_BUS_ADDRESS=disabled:"}
			config := writeConfig(t, "weir.yaml", "listen: 127.0.0.1:0\nmcpServers: {notes: {url: \""+idp.URL+"/mcp\"}}\n")
			s := startWith(t, env, config, "serve", "--config", config)
			s.await("the server needs a sign-in", func(h gateway.Health) bool {
				u := h.Upstreams["notes"]
				return u.State == "sign_in" && strings.Contains(u.Error, "weir login notes")
			})
			list := `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`
			ask := func() string {
				t.Helper()
				_, body := exchange(t, http.MethodPost, s.base+"/mcps/notes/mcp", list, "Content-Type", "application/json", "Accept", "application/json, text/event-stream", "Mcp-Protocol-Version", "2025-11-25")
				return body
			}
			page := `"data":{"kind":"upstream_protocol","server":"notes","command":"weir login notes","connect_url":"` + s.base + `/connect/notes"}`
			if body := ask(); !strings.Contains(body, page) {
				t.Errorf("before the sign-in: %s", body)
			}
			flag := "--no-browser"
			if device {
				flag = "--device"
			}
			logIn(t, idp, env, "--config", config, "notes", flag).want(t, exitOK, "Signed in at notes.")
			s.await("the server is signed in", func(h gateway.Health) bool { return h.Upstreams["notes"].Tools == 2 })
			if body := ask(); !strings.Contains(body, `"hello"`) {
				t.Errorf("after the sign-in: %s", body)
			}
			piped(t, "", env, "credentials", "ls").want(t, exitOK, "notes", idp.URL)
			_ = filepath.WalkDir(state, func(path string, d os.DirEntry, err error) error {
				if data, rerr := os.ReadFile(path); rerr == nil && strings.Contains(string(data), "access_token") {
					t.Errorf("%s has a token in the clear", path)
				}
				return err
			})
			piped(t, "", env, "logout", "notes").want(t, exitOK, "Signed out of notes.")
			if idp.Count("revoked") != 1 {
				t.Error("the token was not revoked")
			}
			piped(t, "", env, "logout", "notes").want(t, exitUsage, "no sign-in")
			piped(t, "", env, "credentials", "ls", "--json").want(t, exitOK, "[]")
			if n := idp.Count("sign-in"); n != 1 {
				t.Errorf("%d sign-ins", n)
			}
		})
	}
}

// TestLoginTabClosed closes the tab of the browser while the code is exchanged: the sign-in goes on.
func TestLoginTabClosed(t *testing.T) {
	t.Parallel()
	idp := protected(t)
	client := oauth.New(oauth.Options{Store: vault.NewMemory(nil)})
	at, _, err := client.Begin(t.Context(), &oauth.Server{Name: "notes", URL: idp.URL + "/mcp", Flow: oauth.FlowCode}, "me", "http://"+callbackAddress+callbackPath)
	if err != nil {
		t.Fatal(err)
	}
	back, err := idp.Browse(at)
	if err != nil {
		t.Fatal(err)
	}
	closed, closeTab := context.WithCancel(t.Context())
	closeTab()
	b := &callback{client: client, principal: "me", done: make(chan error, 1)}
	b.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, back.String(), nil).WithContext(closed))
	if err := <-b.done; err != nil {
		t.Error(err)
	}
}

// TestLoginAgain gives a server another client after a sign-in: the gateway and weir login say why the
// earlier sign-in does not serve.
func TestLoginAgain(t *testing.T) {
	t.Parallel()
	idp := protected(t)
	idp.Secret = "hunter2-hunter2"
	env := []string{"XDG_STATE_HOME=" + t.TempDir(), "XDG_CONFIG_HOME=" + t.TempDir(), "DBUS_SESSION_BUS_ADDRESS=disabled:"}
	before := writeConfig(t, "weir.yaml", "listen: 127.0.0.1:0\nmcpServers: {notes: {url: \""+idp.URL+"/mcp\"}}\n")
	logIn(t, idp, env, "--config", before, "notes", "--no-browser").want(t, exitOK, "Signed in at notes.")
	after := writeConfig(t, "weir.yaml", "listen: 127.0.0.1:0\nmcpServers: {notes: {url: \""+idp.URL+"/mcp\", oauth: {client_id: configured, client_secret: hunter2-hunter2, issuer: \""+idp.URL+"\"}}}\n")
	s := startWith(t, env, after, "serve", "--config", after)
	s.await("the server needs a sign-in", func(h gateway.Health) bool {
		u := h.Upstreams["notes"]
		return u.State == "sign_in" && strings.Contains(u.Error, "oauth.client_id")
	})
	f := logIn(t, idp, env, "--config", after, "notes", "--no-browser").want(t, exitOK, "Signed in at notes.")
	if !strings.Contains(f.stderr, "notes needs a new sign-in: ") || !strings.Contains(f.stderr, "oauth.client_id") {
		t.Errorf("weir login says %q", f.stderr)
	}
	s.await("the server is signed in", func(h gateway.Health) bool { return h.Upstreams["notes"].Tools == 2 })
}

// TestLogoutTells signs out while the issuer is down, and with another key: the sign-in is gone, and the
// command says that its tokens may still serve.
func TestLogoutTells(t *testing.T) {
	t.Parallel()
	idp := protected(t)
	env := []string{"XDG_STATE_HOME=" + t.TempDir(), "XDG_CONFIG_HOME=" + t.TempDir(), "DBUS_SESSION_BUS_ADDRESS=disabled:"}
	dir := t.TempDir()
	config := filepath.Join(dir, "weir.yaml")
	write := func(key string) {
		t.Helper()
		text := "listen: 127.0.0.1:0\ncredentials: {store: \"file:creds\", keys: [" + key + "]}\nmcpServers: {notes: {url: \"" + idp.URL + "/mcp\"}}\n"
		if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("one-0123456789abcdef")
	logIn(t, idp, env, "--config", config, "notes", "--no-browser").want(t, exitOK, "Signed in at notes.")
	idp.SetDown(true)
	piped(t, "", env, "logout", "--config", config, "notes").want(t, exitInternal, "Signed out of notes.", "its tokens are not revoked", "503")
	idp.SetDown(false)
	logIn(t, idp, env, "--config", config, "notes", "--no-browser").want(t, exitOK, "Signed in at notes.")
	write("two-0123456789abcdef")
	f := logIn(t, idp, env, "--config", config, "notes", "--no-browser").want(t, exitOK, "Signed in at notes.", "credentials.keys")
	if !strings.Contains(f.stderr, "notes needs a new sign-in: no key opens the earlier one") {
		t.Errorf("weir login says %q", f.stderr)
	}
	write("three-0123456789abcdef")
	piped(t, "", env, "logout", "--config", config, "notes").want(t, exitInternal, "Signed out of notes.", "its tokens are not revoked", "no key opens it")
	piped(t, "", env, "credentials", "ls", "--config", config, "--json").want(t, exitOK, "[]")
}

// TestAddTellsOfSignIn adds a server that cannot be listed before the sign-in.
func TestAddTellsOfSignIn(t *testing.T) {
	t.Parallel()
	idp := protected(t)
	home := t.TempDir()
	env := []string{"XDG_STATE_HOME=" + t.TempDir(), "XDG_CONFIG_HOME=" + home, "DBUS_SESSION_BUS_ADDRESS=disabled:"}
	config := writeConfig(t, "weir.yaml", "mcpServers: {}\n")
	piped(t, "", env, "add", "--config", config, "--yes", "notes", idp.URL+"/mcp").want(t, exitOK, "weir login notes")
	logIn(t, idp, env, "--config", config, "notes", "--no-browser").want(t, exitOK, "Signed in at notes.")
}

// TestInitTellsOfSignIn takes over a server that cannot be listed before the sign-in, and then examines
// it.
func TestInitTellsOfSignIn(t *testing.T) {
	t.Parallel()
	idp := protected(t)
	home := t.TempDir()
	env := []string{"HOME=" + home, "USERPROFILE=" + home, "XDG_STATE_HOME=" + filepath.Join(home, "state"), "XDG_CONFIG_HOME=" + filepath.Join(home, "config"), "DBUS_SESSION_BUS_ADDRESS=disabled:"}
	if err := os.Mkdir(filepath.Join(home, ".cursor"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(home, ".cursor", "mcp.json"), []byte(`{"mcpServers":{"notes":{"url":"`+idp.URL+`/mcp"}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	f := piped(t, "", env, "init", "--yes").want(t, exitOK, "needs a sign-in: weir login notes")
	if strings.Contains(f.stdout, "0 tools") {
		t.Errorf("weir init says %s", f.stdout)
	}
	found := examined(t, exitTool, append(env, "doctor", "notes", "--json")...)["server notes"]
	if len(found) != 1 || found[0].ID != "server-sign-in" || found[0].Fix != "Run: weir login notes" {
		t.Errorf("weir doctor finds %+v", found)
	}
}

// TestDoctorOfARefusedHeader: a protected server refuses the header of the configuration, which has to
// be renewed: a sign-in would change nothing.
func TestDoctorOfARefusedHeader(t *testing.T) {
	t.Parallel()
	idp := protected(t)
	home := t.TempDir()
	env := []string{"HOME=" + home, "USERPROFILE=" + home, "XDG_STATE_HOME=" + filepath.Join(home, "state"), "XDG_CONFIG_HOME=" + filepath.Join(home, "config"), "DBUS_SESSION_BUS_ADDRESS=disabled:"}
	conf := writeConfig(t, "weir.yaml", "listen: 127.0.0.1:0\nmcpServers: {notes: {url: \""+idp.URL+"/mcp\", headers: {Authorization: Bearer expired-0123456789}}}\n")
	found := examined(t, exitTool, append(env, "doctor", "notes", "--json", "--config", conf)...)["server notes"]
	if len(found) != 1 || found[0].ID != "server-unauthorized" || !strings.Contains(found[0].Fix, "put it into mcpServers.notes.headers.Authorization") ||
		strings.Contains(found[0].Text, "expired-0123456789") {
		t.Errorf("weir doctor finds %+v", found)
	}
}

// TestLoginRefuses names what cannot be signed in at.
func TestLoginRefuses(t *testing.T) {
	t.Parallel()
	config := writeConfig(t, "weir.yaml", "mcpServers: {local: {command: cat}, fixed: {url: \"https://a.example/mcp\", headers: {Authorization: Bearer 0123456789}}}\n")
	for name, want := range map[string]string{"local": "weir starts it", "fixed": "Authorization header", "none": "there is no server"} {
		weir(t, "login", name, "--config", config).want(t, exitUsage, want)
	}
	open := writeConfig(t, "weir.yaml", "auth: {tokens: [{name: a, sha256: "+strings.Repeat("ab", 32)+"}]}\nmcpServers: {notes: {url: \"https://a.example/mcp\"}}\n")
	weir(t, "login", "notes", "--config", open).want(t, exitUsage, "credentials.store")
	weir(t, "logout").want(t, exitUsage, "--all")
}

// TestCredentialsFolder signs a gateway with callers of its own in: its sign-ins are in a folder, whose
// key changes. What a server tells of the token does not reach the agent.
func TestCredentialsFolder(t *testing.T) {
	t.Parallel()
	idp := protected(t)
	dir := t.TempDir()
	env := []string{"XDG_STATE_HOME=" + t.TempDir(), "XDG_CONFIG_HOME=" + t.TempDir(), "DBUS_SESSION_BUS_ADDRESS=disabled:"}
	write := func(keys string) string {
		t.Helper()
		config := filepath.Join(dir, "weir.yaml")
		text := "listen: 127.0.0.1:0\nmode: plain\nartifacts: {redact: true}\nauth: {tokens: [{name: ann, sha256: " + fmt.Sprintf("%x", sha256.Sum256([]byte("ann-token"))) + "}]}\n" +
			"credentials: {store: \"file:creds\", keys: [" + keys + "]}\nmcpServers: {notes: {url: \"" + idp.URL + "/mcp\"}}\n"
		if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return config
	}
	const old, fresh = "old-0123456789abcdef", "new-0123456789abcdef"
	config := write(old)
	logIn(t, idp, env, "--config", config, "notes", "--no-browser").want(t, exitOK, "Signed in at notes.")

	write(fresh + ", " + old)
	piped(t, "", env, "credentials", "rekey", "--config", config).want(t, exitOK, "2 credentials sealed") // the token and the registration
	piped(t, "", env, "credentials", "rekey", "--config", config).want(t, exitOK, "0 credentials sealed")
	write(fresh)
	piped(t, "", env, "credentials", "ls", "--config", config).want(t, exitOK, "notes", idp.URL)

	s := startWith(t, env, config, "serve", "--config", config)
	asked := append(env, "WEIR_TOKEN=ann-token", "WEIR_URL="+s.base+"/mcp")
	piped(t, "", asked, "call", "notes:leak").want(t, exitOK, "you sent [redacted]")
	piped(t, "", env, "logout", "--config", config, "notes").want(t, exitOK, "Signed out of notes.")
}
