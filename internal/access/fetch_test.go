package access_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/weir-mcp/weir/internal/access"
	"github.com/weir-mcp/weir/internal/net/egress"
)

// internet is what an Authenticator reaches: hosts of the configuration by its RoundTrip, which has
// the metadata and redirects of an issuer, and others by dial.
type internet struct {
	keys     string // jwks_uri
	redirect string // of the jwks_uri at the issuer

	mu     sync.Mutex // guards below
	asked  []string   // hosts by RoundTrip
	dialed []string
}

func (n *internet) RoundTrip(r *http.Request) (*http.Response, error) {
	n.mu.Lock()
	n.asked = append(n.asked, r.URL.Host+r.URL.Path)
	n.mu.Unlock()
	w := httptest.NewRecorder()
	switch {
	case strings.Contains(r.URL.Path, "/.well-known/"):
		_ = json.NewEncoder(w).Encode(map[string]any{
			"issuer": issuer, "jwks_uri": n.keys, "authorization_endpoint": issuer + "/authorize", "token_endpoint": n.keys,
		})
	case n.redirect != "":
		http.Redirect(w, r, n.redirect, http.StatusFound)
	default:
		_, _ = io.WriteString(w, `{"keys":[]}`)
	}
	return w.Result(), nil
}

func (n *internet) network() egress.Network {
	return egress.Network{
		Lookup: func(_ context.Context, host string) ([]netip.Addr, error) {
			if strings.HasPrefix(host, "intern") {
				return []netip.Addr{netip.MustParseAddr("192.168.1.1")}, nil
			}
			return []netip.Addr{netip.MustParseAddr("93.184.215.14")}, nil
		},
		Dial: func(_ context.Context, _, at string) (net.Conn, error) {
			n.mu.Lock()
			defer n.mu.Unlock()
			n.dialed = append(n.dialed, at)
			return nil, errors.New("nothing is there")
		},
	}
}

// TestAddressesOfIssuers has the metadata of an issuer, and its redirects, name addresses at which weir
// must not ask. Hosts of the configuration are asked wherever they are.
func TestAddressesOfIssuers(t *testing.T) {
	forbidden := []string{
		"https://10.0.0.7/keys", "https://127.0.0.1/keys", "https://[::1]/keys", "https://localhost/keys", "https://169.254.169.254/keys",
		"https://100.100.100.200/keys", "https://intern.example/keys", "https://user:pw@public.example/keys", "http://public.example/keys",
	}
	for name, c := range map[string]struct {
		keys, redirect string
		jwks           string // of the configuration
		dialed         string
		asked          string // by the client of the configuration's hosts, in addition to the metadata
	}{
		"public":               {keys: "https://keys.example/jwks", dialed: "93.184.215.14:443"},
		"at the issuer":        {keys: issuer + "/jwks", asked: "id.example/t/jwks"},
		"redirected, public":   {keys: issuer + "/jwks", redirect: "https://keys.example/jwks", asked: "id.example/t/jwks", dialed: "93.184.215.14:443"},
		"configured, private":  {jwks: "https://10.0.0.7/keys", asked: "10.0.0.7/keys"},
		"configured, loopback": {jwks: "http://127.0.0.1:8080/keys", asked: "127.0.0.1:8080/keys"},
	} {
		t.Run(name, func(t *testing.T) {
			fetches(t, &internet{keys: c.keys, redirect: c.redirect}, c.jwks, c.asked, c.dialed)
		})
	}
	for _, at := range forbidden {
		t.Run(at, func(t *testing.T) {
			fetches(t, &internet{keys: at}, "", "", "")
			fetches(t, &internet{keys: issuer + "/jwks", redirect: at}, "", "id.example/t/jwks", "")
		})
	}
}

// fetches has an Authenticator fetch the keys of the issuer, and checks what it asks and dials for that.
func fetches(t *testing.T, n *internet, jwks, asked, dialed string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		a := access.New(access.Options{Client: &http.Client{Transport: n}, Network: n.network()})
		defer a.Close()
		a.Apply(access.Policy{PublicURL: public, Issuers: []access.Issuer{{Name: "corp", Issuer: issuer, JWKS: jwks}}})
		synctest.Wait()
		n.mu.Lock()
		defer n.mu.Unlock()
		n.asked = slices.DeleteFunc(n.asked, func(at string) bool { return strings.Contains(at, "/.well-known/") })
		if got := strings.Join(slices.Compact(n.asked), " "); got != asked {
			t.Errorf("jwks_uri %s, redirect %q: asked %q, want %q", n.keys, n.redirect, got, asked)
		}
		if got := strings.Join(slices.Compact(n.dialed), " "); got != dialed {
			t.Errorf("jwks_uri %s, redirect %q: dialed %q, want %q", n.keys, n.redirect, got, dialed)
		}
	})
}

// TestLoginEndpointsOfIssuers has the metadata of an issuer send the secret of auth.login to an address
// at which weir must not ask.
func TestLoginEndpointsOfIssuers(t *testing.T) {
	for at, ok := range map[string]bool{"https://10.0.0.7/token": false, "https://localhost/token": false, "https://token.example/": true, issuer + "/token": true} {
		synctest.Test(t, func(t *testing.T) {
			n := &internet{keys: at}
			a := access.New(access.Options{Client: &http.Client{Transport: n}, Network: n.network()})
			defer a.Close()
			a.Apply(access.Policy{PublicURL: public, Issuers: []access.Issuer{{Name: "corp", Issuer: issuer}}, Login: &access.Login{Issuer: "corp", ClientID: "weir", ClientSecret: "hunter2"}})
			if _, err := a.BeginLogin(t.Context(), back, access.LoginWish{}); (err == nil) != ok {
				t.Errorf("token_endpoint %s: %v", at, err)
			}
			synctest.Wait()
		})
	}
}

// TestIntrospectionIsConfigured asks the endpoint of the configuration about a token, wherever it is.
func TestIntrospectionIsConfigured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &internet{}
		a := access.New(access.Options{Network: n.network(), Client: &http.Client{Transport: n}})
		defer a.Close()
		a.Apply(access.Policy{PublicURL: public, Issuers: []access.Issuer{{
			Name: "corp", Issuer: issuer, JWKS: issuer + "/jwks", Introspection: &access.Introspection{URL: "https://10.0.0.7/introspect"},
		}}})
		synctest.Wait()
		_, _ = a.Authenticate(httptest.NewRequest("POST", "/mcp", nil).WithContext(t.Context()), "opaque") // no issuer knows it
		if !slices.Contains(n.asked, "10.0.0.7/introspect") || len(n.dialed) != 0 {
			t.Errorf("asked %q, dialed %q", n.asked, n.dialed)
		}
	})
}
