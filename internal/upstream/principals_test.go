package upstream

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/config/mcpserver"
	"github.com/weir-mcp/weir/internal/identity"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/signin/oauth"
	"github.com/weir-mcp/weir/internal/text/redact"
	"github.com/weir-mcp/weir/mcp"
)

// accounts is a server with an account for each principal, the sign-ins at it, and the transport that
// puts tokens on requests. The tool whoami tells whose token came with the call.
type accounts struct {
	mu       sync.Mutex        // guards below
	signed   map[string]bool   // principals with a token
	dead     map[string]bool   // whose tokens the server refuses
	sessions map[string]string // whose token made an MCP session
	crossed  []string          // requests in the session of another principal
	shown    map[string]string // the tokens that callers show weir
	listed   []string          // whose token came with tools/list
}

func newAccounts() *accounts {
	return &accounts{signed: map[string]bool{}, dead: map[string]bool{}, shown: map[string]string{}, sessions: map[string]string{}}
}

func (a *accounts) sign(principal string, in bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.signed[principal] = in
}

func (a *accounts) SignedIn(_, principal string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.signed[principal]
}

func (a *accounts) Holder(_, after string) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	var all []string
	for principal, in := range a.signed {
		if in && principal != oauth.Shared {
			all = append(all, principal)
		}
	}
	slices.Sort(all)
	for _, principal := range all {
		if principal > after {
			return principal
		}
	}
	if len(all) > 0 {
		return all[0]
	}
	return ""
}

func (a *accounts) Text(_ context.Context, server, name string, of Owner) (string, error) {
	if !a.SignedIn(server, of.Principal) {
		missing := &oauth.SignInError{Server: server, Command: "weir credentials set " + name}
		return "", missing.Refused()
	}
	return name + " of " + of.Principal, nil
}

func (a *accounts) Digest(_ string, of Owner) [sha256.Size]byte {
	a.mu.Lock()
	defer a.mu.Unlock()
	return sha256.Sum256([]byte(a.shown[of.Principal]))
}

func (a *accounts) Shown(context.Context, string) error { return nil }

// transport implements Options.Transport.
func (a *accounts) transport(name string, of Owner, _ http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		if r.Body != nil {
			defer r.Body.Close()
		}
		r = r.Clone(r.Context())
		if a.SignedIn(name, of.Principal) {
			r.Header.Set("Authorization", "Bearer "+of.Principal)
		}
		w := httptest.NewRecorder()
		a.ServeHTTP(w, r)
		if w.Code == http.StatusUnauthorized {
			missing := &oauth.SignInError{Server: name}
			return nil, &mcp.Error{Kind: mcp.KindUnauthorized, Message: missing.Error(), Err: missing}
		}
		return w.Result(), nil
	})
}

func (a *accounts) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var token string
	_, _ = fmt.Sscanf(r.Header.Get("Authorization"), "Bearer %s", &token)
	var body []byte
	if r.Body != nil {
		body, _ = io.ReadAll(r.Body)
	}
	method, id := rawjson.Text(rawjson.Get(body, "method")), rawjson.Get(body, "id")
	a.mu.Lock()
	defer a.mu.Unlock()
	if token == "" || a.dead[token] {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	session := r.Header.Get("Mcp-Session-Id")
	if session != "" && a.sessions[session] != token {
		a.crossed = append(a.crossed, method+" of "+token+" in the session of "+a.sessions[session])
	}
	switch {
	case r.Method != http.MethodPost:
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	case id == nil:
		w.WriteHeader(http.StatusAccepted)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	result := ""
	switch method {
	case "initialize":
		session = fmt.Sprint("session-", len(a.sessions))
		a.sessions[session] = token
		w.Header().Set("Mcp-Session-Id", session)
		result = `{"protocolVersion":"2025-11-25","serverInfo":{"name":"accounts","version":"1"},"capabilities":{"tools":{}}}`
	case "tools/list":
		a.listed = append(a.listed, token)
		result = `{"tools":[{"name":"whoami","inputSchema":{"type":"object"}}]}`
	case "resources/subscribe", "resources/unsubscribe":
		result = `{}`
	case "tools/call":
		result = fmt.Sprintf(`{"content":[{"type":"text","text":%q}]}`, token)
	default:
		_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no such method"}}`, id)
		return
	}
	_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, id, result)
}

// perPrincipal is a server with a credential for each principal, which lists the same for all.
func perPrincipal(name string) *mcpserver.Server {
	return &mcpserver.Server{Name: name, Namespace: name, URL: "https://" + name + ".example.com/mcp", Type: mcpserver.TransportHTTP, Credentials: "user", Lists: "shared", Timeout: 20 * time.Second}
}

// TestPrincipals follows a server with a credential for each principal from no sign-in to two: no
// principal's call uses the sign-in of another one, and none that of all callers.
func TestPrincipals(t *testing.T) {
	t.Parallel()
	a := newAccounts()
	a.sign(oauth.Shared, true)
	m, s := manage(t, Options{Transport: a.transport, Credentials: a}, perPrincipal("notes"))
	ready(t, m)
	u := upstreamOf(t, m, "notes")
	ann, bob := agent("ann", "{}"), agent("bob", "{}")
	if got := s.tools("notes"); !slices.Equal(got, []string{"sign_in"}) || u.Status().State != StateSignIn {
		t.Errorf("before any sign-in: %q, %+v", got, u.Status())
	}
	refused := func(session *mcp.Session) {
		t.Helper()
		_, err := callTool(as(t.Context(), session), u, "whoami", "{}")
		wantKind(t, err, mcp.KindUnauthorized, "weir login notes")
		if !errors.As(err, new(*oauth.SignInError)) || u.SignedIn(as(t.Context(), session)) {
			t.Errorf("%s: %v", session.Principal(), err)
		}
	}
	refused(ann)
	if _, err := callTool(t.Context(), u, "whoami", "{}"); err == nil {
		t.Error("a call without a principal was made")
	}

	a.sign("ann", true)
	eventually(t, "ann's sign-in lists the server", func() bool { return slices.Equal(s.tools("notes"), []string{"whoami"}) })
	eventually(t, "ann's call is made", func() bool {
		got, err := callTool(as(t.Context(), ann), u, "whoami", "{}")
		return err == nil && got == "ann"
	})
	refused(bob)

	a.sign("bob", true)
	eventually(t, "bob's call is made", func() bool {
		got, err := callTool(as(t.Context(), bob), u, "whoami", "{}")
		return err == nil && got == "bob"
	})
	for range 3 {
		for _, session := range []*mcp.Session{ann, bob, agent("ann", "{}")} {
			if got := callAs(t, u, session, "whoami", "{}"); got != session.Principal() {
				t.Errorf("%s is %s at the server", session.Principal(), got)
			}
		}
	}
	if st := u.Status(); st.Principals != 2 || st.Sessions != 0 || st.State != StateReady {
		t.Errorf("%+v", st)
	}
	if _, ok := u.Target(); ok {
		t.Error("requests can be forwarded past the sign-ins")
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.crossed) > 0 || len(a.sessions) != 3 { // of the lists, of ann and of bob
		t.Errorf("%d sessions; crossed: %q", len(a.sessions), a.crossed)
	}
}

// TestStateOf: the state of a server for a principal tells nothing of the sign-ins of others.
func TestStateOf(t *testing.T) {
	t.Parallel()
	a := newAccounts()
	a.sign("ann", true)
	m, s := manage(t, Options{Transport: a.transport, Credentials: a}, perPrincipal("notes"))
	eventually(t, "ann's sign-in lists the server", func() bool { return slices.Equal(s.tools("notes"), []string{"whoami"}) })
	u := upstreamOf(t, m, "notes")
	eventually(t, "it is ready", func() bool { return u.Status().State == StateReady })
	for principal, want := range map[string]State{"ann": StateIdle, "bob": StateSignIn, "": StateSignIn} {
		if got, own := u.StateOf(principal); got != want || !own {
			t.Errorf("for %q it is %s, want %s", principal, got, want)
		}
	}
	if got := callAs(t, u, agent("ann", "{}"), "whoami", "{}"); got != "ann" {
		t.Errorf("ann is %s", got)
	}
	a.sign("bob", true)
	for principal, want := range map[string]State{"ann": StateReady, "bob": StateIdle} {
		if got, own := u.StateOf(principal); got != want || !own {
			t.Errorf("after a call of ann it is %s for %q, want %s", got, principal, want)
		}
	}
}

// TestHolderEnds lists with the credential of another principal once the server refuses the first.
func TestHolderEnds(t *testing.T) {
	t.Parallel()
	a := newAccounts()
	a.sign("ann", true)
	a.sign("bob", true)
	a.dead["ann"] = true
	m, s := manage(t, Options{Transport: a.transport, Credentials: a}, perPrincipal("notes"))
	eventually(t, "bob's sign-in lists the server", func() bool { return slices.Equal(s.tools("notes"), []string{"whoami"}) })
	_, err := callTool(as(t.Context(), agent("ann", "{}")), upstreamOf(t, m, "notes"), "whoami", "{}")
	wantKind(t, err, mcp.KindUnauthorized)
	a.mu.Lock()
	defer a.mu.Unlock()
	if slices.Contains(a.listed, "ann") {
		t.Errorf("listed for %q", a.listed)
	}
}

// TestPrincipalsBounded gives up the connection that is unused for longest where there are too many, and
// those that are idle.
func TestPrincipalsBounded(t *testing.T) {
	t.Parallel()
	f := &fake{capabilities: toolsOnly, tools: []string{"a"}}
	cfg := &mcpserver.Server{Credentials: "user", Lists: "shared", IdleTimeout: time.Hour}
	inBubble(t, f, Options{}, cfg, func(t *testing.T, m *Manager, s *sink) {
		u := upstreamOf(t, m, "fake")
		if st := u.Status(); st.State != StateIdle || f.started() != 1 {
			t.Errorf("after the listing: %+v, %d starts", st, f.started())
		}
		call := func(i int) {
			t.Helper()
			mustCall(t, peerAs{u, agent(fmt.Sprint("p", i), "{}")}, "a", "{}", "a")
			time.Sleep(time.Second)
			synctest.Wait()
		}
		for i := range maxSessionSlots {
			call(i)
		}
		call(0) // p1 is the one that is unused for longest now
		starts := f.started()
		call(maxSessionSlots)
		if st := u.Status(); st.Principals != maxSessionSlots || f.started() != starts+1 {
			t.Errorf("%d principals, %d starts more", st.Principals, f.started()-starts)
		}
		call(0)
		if f.started() != starts+1 {
			t.Error("p0 lost its connection")
		}
		call(1)
		if f.started() != starts+2 {
			t.Error("p1 kept its connection")
		}
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		if st := u.Status(); st.Principals != 0 {
			t.Errorf("after two idle hours: %d principals", st.Principals)
		}
	})
}

// TestPrincipalsHear gives what a server tells outside of calls to the principal of the connection.
func TestPrincipalsHear(t *testing.T) {
	t.Parallel()
	f := &fake{capabilities: `{"tools":{},"logging":{}}`, tools: []string{"a"}}
	f.serve = func(f *fake, ctx context.Context, r *mcp.Request) (json.RawMessage, error) {
		if r.Method == "tools/list" {
			return nil, f.last().Notify(ctx, "notifications/custom", json.RawMessage(`{}`))
		}
		return nil, nil
	}
	cfg := &mcpserver.Server{Credentials: "user", Lists: "shared", IdleTimeout: time.Hour}
	inBubble(t, f, Options{}, cfg, func(t *testing.T, m *Manager, s *sink) {
		u := upstreamOf(t, m, "fake")
		var mu sync.Mutex
		heard := map[string]int{}
		listen := func(name string) *mcp.Session {
			session := agent(name, "{}")
			u.Subscribe(as(t.Context(), session), func(method string, _ json.RawMessage) {
				mu.Lock()
				defer mu.Unlock()
				heard[session.Principal()+" "+method]++
			})
			return session
		}
		tell := func(run *mcp.Conn) {
			t.Helper()
			if err := run.Notify(t.Context(), "notifications/custom", json.RawMessage(`{}`)); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		bob := listen("bob")
		_, err := u.SubscribeResource(t.Context(), "file:///x", func(json.RawMessage) {})
		wantKind(t, err, mcp.KindUnauthorized) // it has no principal

		nudge(u.conns.shared.calls.wake) // the connection that lists
		synctest.Wait()
		if f.count("tools/list") != 2 {
			t.Error("the lists were not read again")
		}
		if err := u.SetLogLevel(as(t.Context(), bob), "debug"); err != nil || f.count(`logging/setLevel "debug"`) != 0 {
			t.Errorf("a principal without a connection set the level of another one: %v", err)
		}
		ann := listen("ann")
		mustCall(t, peerAs{u, ann}, "a", "{}", "a")
		runOfAnn := f.last()
		mustCall(t, peerAs{u, bob}, "a", "{}", "a")
		tell(runOfAnn)
		tell(runOfAnn)
		tell(f.last())
		mu.Lock()
		defer mu.Unlock()
		if want := map[string]int{"ann notifications/custom": 2, "bob notifications/custom": 1}; fmt.Sprint(heard) != fmt.Sprint(want) {
			t.Errorf("heard %v, want %v", heard, want)
		}
	})
}

// TestProgramOfPrincipal starts a program for each principal, with the credential of that principal in its
// environment, and none for a principal without one.
func TestProgramOfPrincipal(t *testing.T) {
	t.Parallel()
	a := newAccounts()
	cfg := program("local")
	cfg.Credentials, cfg.Lists = "user", "shared"
	loaded, _, err := config.Parse("weir.yaml", []byte(`mcpServers: {local: {command: cat, credentials: user, env: {TOKEN: "<${user:local}>"}}}`), config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	cfg.Env["TOKEN"] = loaded.Servers[0].Env["TOKEN"]
	m, s := manage(t, Options{Credentials: a}, cfg)
	ready(t, m)
	u := upstreamOf(t, m, "local")
	if got := s.tools("local"); !slices.Equal(got, []string{"sign_in"}) || u.Status().State != StateSignIn {
		t.Errorf("before any credential: %q, %+v", got, u.Status())
	}
	ann, bob := agent("ann", "{}"), agent("bob", "{}")
	a.sign("ann", true)
	eventually(t, "the server is listed", func() bool { return len(s.tools("local")) > 1 })
	for i, session := range []*mcp.Session{ann, ann, agent("ann", "{}")} {
		if got := callAs(t, u, session, "counter", "{}"); got != itoa(i+1) {
			t.Errorf("call %d of ann: %s", i, got)
		}
	}
	_, err = callTool(as(t.Context(), bob), u, "counter", "{}")
	wantKind(t, err, mcp.KindUnauthorized, "weir credentials set local")
	a.sign("bob", true)
	eventually(t, "bob has a program of his own", func() bool {
		got, err := callTool(as(t.Context(), bob), u, "counter", "{}")
		return err == nil && got == "1"
	})
	for _, session := range []*mcp.Session{ann, bob} {
		own, err := u.conns.pick(as(t.Context(), session), false, "")
		if err != nil {
			t.Fatal(err)
		}
		cmd, _, err := u.command(t.Context(), own)
		if want := "TOKEN=<local of " + session.Principal() + ">"; err != nil || !slices.Contains(cmd.Env, want) {
			t.Errorf("%v has no %s: %v", cmd.Env, want, err)
		}
	}
}

// listers is a set of accounts whose server greets every caller and lists for some of them.
type listers struct {
	*accounts
	status map[string]int // of tools/list for a token, "" for none; 0 lists
	asked  []string       // whose tokens came with tools/list; guarded by accounts.mu, like status
}

// transport implements Options.Transport.
func (l *listers) transport(name string, of Owner, _ http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		var body []byte
		if r.Body != nil {
			body, _ = io.ReadAll(r.Body)
			_ = r.Body.Close()
		}
		token := ""
		if l.SignedIn(name, of.Principal) {
			token = of.Principal
		}
		if rawjson.Text(rawjson.Get(body, "method")) == "tools/list" {
			l.mu.Lock()
			status := l.status[token]
			l.asked = append(l.asked, token)
			l.mu.Unlock()
			switch status {
			case http.StatusUnauthorized:
				missing := &oauth.SignInError{Server: name}
				return nil, &mcp.Error{Kind: mcp.KindUnauthorized, Message: missing.Error(), Err: missing}
			case http.StatusForbidden:
				return &http.Response{StatusCode: status, Header: http.Header{}, Body: http.NoBody, Request: r}, nil
			}
		}
		r = r.Clone(r.Context())
		r.Body = io.NopCloser(bytes.NewReader(body))
		r.Header.Set("Authorization", "Bearer "+cmp.Or(token, "stranger"))
		w := httptest.NewRecorder()
		l.ServeHTTP(w, r)
		return w.Result(), nil
	})
}

// newListers returns a server with accounts for the principals.
func newListers(status map[string]int, principals ...string) *listers {
	l := &listers{accounts: newAccounts(), status: status}
	for _, principal := range principals {
		l.sign(principal, true)
	}
	return l
}

// TestHolderMayNotList lists with the credential of another principal where the server greets the
// first one and does not list for it.
func TestHolderMayNotList(t *testing.T) {
	t.Parallel()
	for _, status := range []int{http.StatusUnauthorized, http.StatusForbidden} {
		t.Run(itoa(status), func(t *testing.T) {
			t.Parallel()
			l := newListers(map[string]int{"ann": status}, "ann", "bob")
			m, s := manage(t, Options{Transport: l.transport, Credentials: l}, perPrincipal("notes"))
			eventually(t, "bob's sign-in lists the server", func() bool { return slices.Equal(s.tools("notes"), []string{"whoami"}) })
			u := upstreamOf(t, m, "notes")
			for _, name := range []string{"ann", "bob"} {
				if got := callAs(t, u, agent(name, "{}"), "whoami", "{}"); got != name {
					t.Errorf("%s is %s at the server", name, got)
				}
			}
		})
	}
}

// TestStrangerMayNotList offers a sign-in where the server greets strangers and does not list for
// them, and lists after one.
func TestStrangerMayNotList(t *testing.T) {
	t.Parallel()
	l := newListers(map[string]int{"": http.StatusUnauthorized})
	m, s := manage(t, Options{Transport: l.transport, Credentials: l}, perPrincipal("notes"))
	ready(t, m)
	u := upstreamOf(t, m, "notes")
	eventually(t, "a sign-in is offered", func() bool {
		return slices.Equal(s.tools("notes"), []string{"sign_in"}) && u.Status().State == StateSignIn
	})
	l.sign("ann", true)
	eventually(t, "ann's sign-in lists the server", func() bool { return slices.Equal(s.tools("notes"), []string{"whoami"}) })
}

// TestNoHolderMayList asks a server that lists for none of its principals at the pace of any other
// failure, however many they are.
func TestNoHolderMayList(t *testing.T) {
	t.Parallel()
	for _, principals := range [][]string{{"ann"}, {"ann", "ben"}, {"ann", "ben", "cat"}, {"ann", "ben", "cat", "dan", "eve", "fay", "gus"}} {
		t.Run(itoa(len(principals)), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				refused := map[string]int{}
				for _, principal := range principals {
					refused[principal] = http.StatusUnauthorized
				}
				l := newListers(refused, principals...)
				_, s := manage(t, Options{Transport: l.transport, Credentials: l}, perPrincipal("notes"))
				time.Sleep(10 * time.Minute)
				l.mu.Lock()
				asked := len(l.asked)
				l.mu.Unlock()
				if got := s.tools("notes"); !slices.Equal(got, []string{"sign_in"}) || asked < 10 || asked > 50 {
					t.Errorf("%q; the lists were requested %d times in ten minutes", got, asked)
				}
				l.sign("bob", true)
				time.Sleep(2 * maxBackoff) // bob was not tried yet, so it is not a matter of turns
				synctest.Wait()
				if got := s.tools("notes"); !slices.Equal(got, []string{"whoami"}) {
					t.Errorf("after bob's sign-in: %q", got)
				}
			})
		})
	}
}

// TestStrangersList takes a principal's credential for the lists once there is one.
func TestStrangersList(t *testing.T) {
	t.Parallel()
	l := newListers(nil)
	m, s := manage(t, Options{Transport: l.transport, Credentials: l}, perPrincipal("notes"))
	eventually(t, "the server is listed for strangers", func() bool { return slices.Equal(s.tools("notes"), []string{"whoami"}) })
	l.sign("ann", true)
	eventually(t, "the server is listed for ann", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return slices.Contains(l.asked, "ann")
	})
	u := upstreamOf(t, m, "notes")
	eventually(t, "it is ready", func() bool { return u.Status().State == StateReady })
	if st := u.Status(); st.Restarts != 0 {
		t.Errorf("%+v", st)
	}
}

// TestHeldTexts runs a program with the credential of a caller in its environment: the credential is
// removed from texts until the program has ended, however many tokens are used meanwhile.
func TestHeldTexts(t *testing.T) {
	t.Parallel()
	a, tokens := newAccounts(), redact.NewRecent(2)
	cfg := program("local")
	cfg.Credentials, cfg.Lists = "user", "shared"
	loaded, _, err := config.Parse("weir.yaml", []byte(`mcpServers: {local: {command: cat, credentials: user, env: {TOKEN: "<${user:local}>"}}}`), config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	cfg.Env["TOKEN"] = loaded.Servers[0].Env["TOKEN"]
	m, _ := manage(t, Options{Credentials: a, Hold: tokens.Hold, Redact: tokens.Replace}, cfg)
	ready(t, m)
	u, ann := upstreamOf(t, m, "local"), agent("ann", "{}")
	a.sign("ann", true)
	eventually(t, "ann has a program", func() bool {
		_, err := callTool(as(t.Context(), ann), u, "counter", "{}")
		return err == nil
	})
	others := func() {
		for i := range 5 {
			tokens.Add("another-token-" + itoa(i))
		}
	}
	others()
	if got := tokens.Replace("it is local of ann"); got != "it is "+redact.Mark {
		t.Errorf("while the program runs: %q", got)
	}
	if err := m.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	others()
	if got := tokens.Replace("it is local of ann"); got != "it is local of ann" || tokens.Len() != 2 {
		t.Errorf("after its end: %q, and %d tokens are known", got, tokens.Len())
	}
}

// TestRefusedTokenOfCaller: a subscription holds the connection of a caller whose token the server
// refuses. The token is shown ever more seldom, a new one within a second.
func TestRefusedTokenOfCaller(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newAccounts()
		a.sign("ann", true)
		a.shown["ann"] = "first"
		tries, made := 0, 0 // requests with ann's token, and those that the server served
		counting := func(name string, of Owner, base http.RoundTripper) http.RoundTripper {
			return roundTripper(func(r *http.Request) (*http.Response, error) {
				resp, err := a.transport(name, of, base).RoundTrip(r)
				if of.Principal == "ann" && !of.Lists {
					a.mu.Lock()
					defer a.mu.Unlock()
					if tries++; err == nil && resp.StatusCode == http.StatusOK {
						made++
					}
				}
				return resp, err
			})
		}
		cfg := perPrincipal("notes")
		cfg.Credentials, cfg.IdleTimeout = "forward", time.Hour
		m := New(Options{Transport: counting, Credentials: a, Sink: &sink{}, Logger: slog.New(slog.NewTextHandler(testWriter{t}, &slog.HandlerOptions{Level: slog.LevelDebug}))})
		defer func() { _ = m.Close(context.Background()) }()
		m.Apply([]*mcpserver.Server{cfg})
		synctest.Wait()
		ctx := identity.With(as(t.Context(), agent("ann", "{}")), &identity.Identity{Principal: "ann", Bearer: "first"})
		u := upstreamOf(t, m, "notes")
		stop, err := u.SubscribeResource(ctx, "file:///x", func(json.RawMessage) {})
		if err != nil {
			t.Fatal(err)
		}
		change := func(dead bool, token string, wait time.Duration) int {
			a.mu.Lock()
			a.dead["ann"], a.shown["ann"], tries, made = dead, token, 0, 0
			a.mu.Unlock()
			time.Sleep(wait)
			synctest.Wait()
			a.mu.Lock()
			defer a.mu.Unlock()
			return tries
		}
		change(true, "first", 0)
		u.conns.mu.Lock()
		for key, s := range u.conns.byKey {
			if key.principal == "ann" {
				s.calls.lose(s.calls.current(), &mcp.Error{Kind: mcp.KindUnauthorized, Err: &oauth.SignInError{Server: "notes"}})
			}
		}
		u.conns.mu.Unlock()
		if n := change(true, "first", time.Hour); n < 15 || n > 30 { // 1, 2, 4 … 256 s, then every 5 minutes
			t.Errorf("%d attempts in an hour", n)
		}
		if n := change(true, "second", 1500*time.Millisecond); n != 1 {
			t.Errorf("%d attempts with a new token", n)
		}
		if change(false, "third", 2*time.Second); made == 0 {
			t.Error("a good token makes no connection")
		}
		stop()
	})
}
