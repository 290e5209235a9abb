package oauth

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

func TestChallengeOf(t *testing.T) {
	for _, c := range []struct {
		header []string
		want   Challenge
	}{
		{nil, Challenge{Status: 401}},
		{[]string{`Bearer`}, Challenge{Status: 401}},
		{[]string{`Basic realm="x"`}, Challenge{Status: 401}},
		{[]string{`Bearer resource_metadata="https://a/b", scope="x y x"`}, Challenge{401, "https://a/b", []string{"x", "y"}, "", false}},
		{[]string{`bearer  Error=invalid_token ,RESOURCE_METADATA = "https://a/b\"c"`}, Challenge{401, `https://a/b"c`, nil, "invalid_token", false}},
		{[]string{`Basic realm="Bearer scope=\"no\"", Bearer scope=yes`}, Challenge{401, "", []string{"yes"}, "", false}},
		{[]string{`Negotiate YIIabc==, Bearer scope="x"`}, Challenge{401, "", []string{"x"}, "", false}},
		{[]string{`Basic realm=x`, `Bearer error="insufficient_scope"`}, Challenge{401, "", nil, "insufficient_scope", false}},
		{[]string{`DPoP algs="ES256", error="use_dpop_nonce"`}, Challenge{401, "", nil, "use_dpop_nonce", true}},
		{[]string{`DPoP algs="ES256"`, `Bearer scope="x"`}, Challenge{401, "", []string{"x"}, "", true}},
		{[]string{`Bearer scope="unclosed`}, Challenge{Status: 401}},
		{[]string{`Bearer scope="first", scope="second"`}, Challenge{401, "", []string{"first"}, "", false}},
	} {
		got := challengeOf(401, http.Header{"Www-Authenticate": c.header})
		if got.Status != c.want.Status || got.Metadata != c.want.Metadata || got.Error != c.want.Error || got.DPoP != c.want.DPoP || !slices.Equal(got.Scopes, c.want.Scopes) {
			t.Errorf("%q: %+v, want %+v", c.header, got, c.want)
		}
	}
}

func FuzzChallenges(f *testing.F) {
	for _, text := range []string{`Bearer resource_metadata="https://a/b", scope="x y"`, `Basic realm="a\"b", Negotiate a==`, `a=b`, `Bearer x=`, ``} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		found := parseChallenges([]string{text})
		if len(found) > maxChallenges {
			t.Errorf("%d challenges", len(found))
		}
		for _, c := range found {
			if c.scheme == "" || c.scheme != strings.ToLower(c.scheme) || c.params == nil {
				t.Errorf("challenge %+v", c)
			}
			// What is written again in its usual form reads the same.
			line := c.scheme
			for name, v := range c.params {
				line += "," + name + `="` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(v) + `"`
			}
			line = strings.Replace(line, ",", " ", 1)
			again := parseChallenges([]string{line})
			if len(line) > maxChallengeText {
				continue
			}
			if len(again) != 1 || len(again[0].params) != len(c.params) {
				t.Errorf("%q reads as %+v, then as %+v", line, c, again)
			}
		}
	})
}

func TestWellKnown(t *testing.T) {
	if got := strings.Join(wellKnown("https://a:8/m/n/?x=1", "oauth-protected-resource"), " "); got != "https://a:8/.well-known/oauth-protected-resource/m/n https://a:8/.well-known/oauth-protected-resource" {
		t.Error(got)
	}
}

func TestCovers(t *testing.T) {
	for _, c := range []struct {
		resource, server string
		want             bool
	}{
		{"https://a/mcp", "https://a/mcp", true},
		{"https://a/mcp/", "https://a/mcp", true}, // python-sdk#1264
		{"https://a/mcp", "https://a/mcp/", true},
		{"https://a", "https://a/mcp", true},
		{"https://A:443/", "https://a/mcp", true},
		{"https://a/m", "https://a/mcp", false},
		{"https://a/mcp/x", "https://a/mcp", false},
		{"https://b/mcp", "https://a/mcp", false},
		{"http://a/mcp", "https://a/mcp", false},
		{"https://a:8443/mcp", "https://a/mcp", false},
		{"https://u@a/mcp", "https://a/mcp", false},
		{"", "https://a/mcp", false},
	} {
		if got := covers(c.resource, c.server); got != c.want {
			t.Errorf("covers(%q, %q) = %v", c.resource, c.server, got)
		}
	}
}

// TestDiscoveryStops breaks the metadata in every way: each error says what was asked.
func TestDiscoveryStops(t *testing.T) {
	for name, c := range map[string]struct {
		metadata, resource map[string]any
		want               string
	}{
		"another resource":     {nil, map[string]any{"resource": "https://evil.example/mcp"}, "another resource"},
		"no issuer":            {nil, map[string]any{"authorization_servers": nil}, "no authorization server"},
		"issuer with a slash":  {map[string]any{"issuer": "%/"}, nil, "both texts have to be the same"},
		"no S256":              {map[string]any{"code_challenge_methods_supported": []string{"plain"}}, nil, "S256"},
		"no methods":           {map[string]any{"code_challenge_methods_supported": nil}, nil, "S256"},
		"token over http":      {map[string]any{"token_endpoint": "http://id.example/token"}, nil, "token_endpoint"},
		"script as a page":     {map[string]any{"authorization_endpoint": "javascript:alert(1)"}, nil, "authorization_endpoint"},
		"metadata address":     {map[string]any{"token_endpoint": "https://169.254.169.254/token"}, nil, ""},
		"no token endpoint":    {map[string]any{"token_endpoint": nil}, nil, "token_endpoint"},
		"no issuer's document": {nil, map[string]any{"authorization_servers": []string{"%/nowhere"}}, "/.well-known/oauth-authorization-server/nowhere"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			fill := func(m map[string]any) map[string]any {
				for k, v := range m {
					if s, ok := v.(string); ok {
						m[k] = strings.Replace(s, "%", w.idp.URL, 1)
					}
					if list, ok := v.([]string); ok && len(list) > 0 {
						m[k] = []string{strings.Replace(list[0], "%", w.idp.URL, 1)}
					}
				}
				return m
			}
			w.idp.Metadata, w.idp.Resource = fill(c.metadata), fill(c.resource)
			_, _, err := w.client.Begin(t.Context(), w.server, "me", redirect)
			if c.want == "" { // the address is refused when it is dialed
				if err != nil {
					t.Fatal(err)
				}
				if err = w.trySignIn("me"); err == nil {
					t.Error("the metadata service of the cloud got the code")
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("err = %v, want %q", err, c.want)
			}
		})
	}
}

// TestNextAuthorizationServer signs in at a server that names several authorization servers: the first
// one that can be used is. If none can, the error says why of each.
func TestNextAuthorizationServer(t *testing.T) {
	w := newWorld(t)
	w.idp.Resource = map[string]any{"authorization_servers": []string{w.idp.URL + "/gone", w.idp.URL + "/", w.idp.URL}}
	w.signIn("me")
	w.welcome("me")
	w = newWorld(t)
	w.idp.Resource = map[string]any{"authorization_servers": []string{w.idp.URL + "/gone", w.idp.URL + "/"}}
	err := w.trySignIn("me")
	if err == nil || !strings.Contains(err.Error(), w.idp.URL+"/gone of ") || !strings.Contains(err.Error(), "both texts have to be the same") {
		t.Errorf("no authorization server that serves: %v", err)
	}
	if n := w.idp.Count("/register") + w.idp.Count("/authorize"); n != 0 {
		t.Errorf("%d requests to authorization servers that cannot be used", n)
	}
}

// TestConfiguredIssuer signs in at a server that tells of no issuer.
func TestConfiguredIssuer(t *testing.T) {
	w := newWorld(t)
	w.idp.Resource = map[string]any{"authorization_servers": nil}
	w.server.Issuer, w.server.Configured = w.idp.URL, true
	w.signIn("me")
	w.welcome("me")
}

// TestAddresses names 40 places that a server on the internet must not send weir to.
func TestAddresses(t *testing.T) {
	dialed := ""
	w := &web{
		lookup: func(_ context.Context, host string) ([]netip.Addr, error) {
			switch {
			case strings.HasPrefix(host, "public"):
				return []netip.Addr{netip.MustParseAddr("93.184.215.14")}, nil
			case strings.HasPrefix(host, "mixed"):
				return []netip.Addr{netip.MustParseAddr("93.184.215.14"), netip.MustParseAddr("10.0.0.1")}, nil
			case strings.HasPrefix(host, "localhost"):
				return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
			}
			return []netip.Addr{netip.MustParseAddr("192.168.1.1")}, nil
		},
		dial: func(_ context.Context, _, at string) (net.Conn, error) {
			dialed = at
			return nil, net.ErrClosed
		},
	}
	r := w.reach("https://public.example/mcp")
	bad := []string{
		"https://127.0.0.1/", "https://127.1.2.3/", "https://[::1]/", "https://[::ffff:127.0.0.1]/", "https://0.0.0.0/", "https://[::]/",
		"https://10.0.0.1/", "https://172.16.0.1/", "https://172.31.255.255/", "https://192.168.0.1/", "https://100.64.0.1/", "https://169.254.169.254/",
		"https://169.254.0.1/", "https://[fe80::1]/", "https://[fe80::1%25eth0]/", "https://[fc00::1]/", "https://[fd00:ec2::254]/", "https://[fec0::1]/",
		"https://224.0.0.1/", "https://255.255.255.255/", "https://[ff02::1]/", "https://240.0.0.1/", "https://192.0.2.1/", "https://198.51.100.1/",
		"https://203.0.113.1/", "https://198.18.0.1/", "https://192.0.0.192/", "https://168.63.129.16/", "https://100.100.100.200/", "https://[64:ff9b::7f00:1]/",
		"https://[64:ff9b::a9fe:a9fe]/", "https://[2002:7f00:1::]/", "https://[2001:db8::1]/", "https://[::127.0.0.1]/", "https://localhost/", "https://a.localhost/",
		"https://LOCALHOST./", "https://intern.example/", "https://mixed.example/", "http://public.example:8080/", "https://u:p@public.example/", "ftp://public.example/",
		"https://[fd20:ce::254]/", "https://2130706433.example.intern/", "file:///etc/passwd", "https:///x",
	}
	if len(bad) < 40 {
		t.Fatalf("%d addresses", len(bad))
	}
	for _, at := range bad {
		dialed = ""
		err := r.get(t.Context(), at, &struct{}{})
		if err == nil || dialed != "" {
			t.Errorf("%s: err = %v, dialed %q", at, err, dialed)
		}
		if err := r.post(t.Context(), at, url.Values{}, nil, nil); err == nil || dialed != "" {
			t.Errorf("POST %s: err = %v, dialed %q", at, err, dialed)
		}
	}
	if _ = r.get(t.Context(), "https://public.example/x", &struct{}{}); dialed != "93.184.215.14:443" {
		t.Errorf("a public address: dialed %q", dialed)
	}
	// The name of a server says nothing of where it is: its owner can have it resolve anywhere.
	r = w.reach("https://intern.example/mcp")
	dialed = ""
	if err := r.get(t.Context(), "https://id.intern.example/", &struct{}{}); err == nil || dialed != "" {
		t.Errorf("a server whose name resolves to a private address: dialed %q", dialed)
	}
	// A server at a private address may name others there, and never this machine or a metadata service.
	r = w.reach("https://192.168.1.7/mcp")
	if _ = r.get(t.Context(), "https://id.intern.example/", &struct{}{}); dialed != "192.168.1.1:443" {
		t.Errorf("an address of the same network: dialed %q", dialed)
	}
	for _, at := range []string{"https://127.0.0.1/", "https://localhost/", "https://169.254.169.254/"} {
		dialed = ""
		if err := r.get(t.Context(), at, &struct{}{}); err == nil || dialed != "" {
			t.Errorf("%s: err = %v, dialed %q", at, err, dialed)
		}
	}
}

// TestRebinding has a resolver that says another address each time.
func TestRebinding(t *testing.T) {
	var asked atomic.Int32
	var dialed []string
	w := &web{
		lookup: func(_ context.Context, host string) ([]netip.Addr, error) {
			if host == "server.example" || asked.Add(1) == 1 {
				return []netip.Addr{netip.MustParseAddr("93.184.215.14")}, nil
			}
			return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
		},
		dial: func(_ context.Context, _, at string) (net.Conn, error) {
			dialed = append(dialed, at)
			return nil, net.ErrClosed
		},
	}
	r := w.reach("https://server.example/mcp")
	for range 3 {
		_ = r.get(t.Context(), "https://rebind.example/", &struct{}{})
	}
	if !slices.Equal(dialed, []string{"93.184.215.14:443"}) {
		t.Errorf("dialed %q", dialed)
	}
}

// TestAnswers bounds what is read, and follows redirects of a GET alone.
func TestAnswers(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("/large", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, maxBody+1)) })
	mux.HandleFunc("/slow", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	mux.HandleFunc("/to/{n}", func(w http.ResponseWriter, r *http.Request) {
		to := map[string]string{"1": "/to/2", "2": "/to/3", "3": "/ok", "4": "/to/1", "away": "https://10.0.0.1/"}[r.PathValue("n")]
		http.Redirect(w, r, to, http.StatusTemporaryRedirect)
	})
	mux.HandleFunc("/ok", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"issuer":"x"}`)) })
	s := httptest.NewServer(mux)
	defer s.Close()
	r := (&web{}).reach(s.URL)
	get := func(path string) error {
		meta := serverMetadata{}
		err := r.get(t.Context(), s.URL+path, &meta)
		if err == nil && meta.Issuer != "x" {
			t.Errorf("%s: %+v", path, meta)
		}
		return err
	}
	if err := get("/to/1"); err != nil {
		t.Errorf("3 redirects: %v", err)
	}
	for path, want := range map[string]string{"/to/4": "redirects", "/to/away": "10.0.0.1", "/large": "bytes", "/none": "404"} {
		// A loopback server may name a private address, but nothing answers there within this test.
		if path == "/to/away" {
			continue
		}
		if err := get(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", path, err)
		}
	}
	if err := r.post(t.Context(), s.URL+"/to/3", url.Values{}, nil, nil); err == nil || !strings.Contains(err.Error(), "redirected") {
		t.Errorf("a POST was redirected: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := r.get(ctx, s.URL+"/slow", &struct{}{}); err == nil {
		t.Error("a server that never answers")
	}
	strict := (&web{}).reach("https://93.184.215.14/mcp")
	if err := strict.get(t.Context(), s.URL+"/ok", &struct{}{}); err == nil {
		t.Error("a server on the internet named this machine")
	}
}

// TestSettled tells answers that would be the same again from failures that pass.
func TestSettled(t *testing.T) {
	gone, down := fmt.Errorf("at x: %w", statusError(404)), fmt.Errorf("at y: %w", statusError(503))
	for _, c := range []struct {
		err  error
		want bool
	}{
		{gone, true}, {errors.Join(gone, gone), true}, {fmt.Errorf("at z: %w", errNoServer), true}, {errors.Join(gone, fmt.Errorf("at z: %w", errNoServer)), true},
		{down, false}, {errors.Join(gone, down), false}, {statusError(429), false}, {statusError(408), false}, {net.ErrClosed, false}, {errors.New("not JSON"), false},
	} {
		if got := settled(c.err); got != c.want {
			t.Errorf("settled(%v) = %v", c.err, got)
		}
	}
}
