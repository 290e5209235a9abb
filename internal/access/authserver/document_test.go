package authserver_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/weir-mcp/weir/internal/net/egress"
)

// publisher is a web server with metadata documents. The network says that it is at a public address.
type publisher struct {
	documents map[string]string
	header    http.Header
	asked     atomic.Int32
	network   egress.Network
}

func newPublisher(t *testing.T) *publisher {
	p := &publisher{documents: map[string]string{}, header: http.Header{}}
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.asked.Add(1)
		document, ok := p.documents[r.URL.Path]
		switch {
		case strings.HasPrefix(document, "to "):
			http.Redirect(w, r, document[3:], http.StatusFound)
		case !ok:
			http.NotFound(w, r)
		default:
			for name, values := range p.header {
				w.Header()[name] = values
			}
			fmt.Fprint(w, document)
		}
	}))
	t.Cleanup(server.Close)
	pool := x509.NewCertPool()
	pool.AddCert(server.Certificate())
	p.network = egress.Network{
		Lookup: func(_ context.Context, host string) ([]netip.Addr, error) {
			switch host {
			case "inside.example":
				return []netip.Addr{netip.MustParseAddr("10.0.0.7")}, nil
			case "rebound.example": // one public address does not help
				return []netip.Addr{netip.MustParseAddr("93.184.216.34"), netip.MustParseAddr("169.254.169.254")}, nil
			case "here.example":
				return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
			}
			return []netip.Addr{netip.MustParseAddr("93.184.216.34")}, nil
		},
		Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, server.Listener.Addr().String())
		},
		TLS: &tls.Config{RootCAs: pool, ServerName: "example.com"},
	}
	return p
}

const clientDocument = `{"client_id": %q, "client_name": "Documented", "redirect_uris": ["https://app.example/back", "http://127.0.0.1/back"]%s}`

// TestMetadataDocuments: a client whose id is the URL of its document signs in, and the document is fetched once.
func TestMetadataDocuments(t *testing.T) {
	p := newPublisher(t)
	w := newWorld(t, nil)
	w.o.Network = p.network
	w.s = w.node()
	const id = "https://client.example/oauth/client.json"
	p.documents["/oauth/client.json"] = fmt.Sprintf(clientDocument, id, "")
	p.header.Set("Cache-Control", "max-age=600")
	v := newVerifier()
	page := w.enter(w.passwordPage(request(id, appBack, v)), "right").Body.String()
	if !strings.Contains(page, "client of client.example") || !strings.Contains(page, "Documented") {
		t.Error(page)
	}
	back := w.browse(request(id, appBack, v))
	a := w.exchange(id, appBack, v, back)
	if a.status != http.StatusOK || w.refresh(id, a.text("refresh_token")).status != http.StatusOK {
		t.Fatal(a)
	}
	if n := p.asked.Load(); n != 1 {
		t.Errorf("fetched %d times", n)
	}
}

// TestDocumentsThatAreRefused: none is asked for at an address of this network, and none counts that is not its own.
func TestDocumentsThatAreRefused(t *testing.T) {
	p := newPublisher(t)
	for path, document := range map[string]string{
		"/other":    fmt.Sprintf(clientDocument, "https://client.example/else", ""),
		"/secret":   fmt.Sprintf(clientDocument, "https://client.example/secret", `, "token_endpoint_auth_method": "client_secret_post"`),
		"/keyless":  fmt.Sprintf(clientDocument, "https://client.example/keyless", `, "token_endpoint_auth_method": "private_key_jwt"`),
		"/moved":    "to https://client.example/good",
		"/inside":   "to https://10.0.0.7/good",
		"/html":     "<html>",
		"/large":    fmt.Sprintf(clientDocument, "https://client.example/large", `, "x": "`+strings.Repeat("x", 17<<10)+`"`),
		"/script":   `{"client_id": "https://client.example/script", "redirect_uris": ["javascript:alert(1)"]}`,
		"/idle":     `{"client_id": "https://client.example/idle", "redirect_uris": []}`,
		"/redirect": fmt.Sprintf(clientDocument, "https://client.example/redirect", ""),
	} {
		p.documents[path] = document
	}
	for id, mayAsk := range map[string]bool{
		"https://client.example/other": true, "https://client.example/secret": true, "https://client.example/keyless": true, "https://client.example/moved": true,
		"https://client.example/inside": true, "https://client.example/html": true, "https://client.example/large": true, "https://client.example/script": true,
		"https://client.example/idle": true, "https://client.example/missing": true,
		"http://client.example/redirect": false, "https://client.example": false, "https://client.example/": false, "https://u:p@client.example/redirect": false,
		"https://client.example/redirect#x": false, "https://client.example/a/../redirect": false, "https://client.example/%2e%2e/redirect": false,
		"https://127.0.0.1/redirect": false, "https://10.0.0.7/redirect": false, "https://169.254.169.254/latest": false, "https://[::1]/redirect": false,
		"https://localhost/redirect": false, "https://inside.example/redirect": false, "https://rebound.example/redirect": false, "https://here.example/redirect": false,
		"https://[::ffff:10.0.0.7]/redirect": false, "ftp://client.example/redirect": false, "file:///etc/passwd": false,
	} {
		w := newWorld(t, nil)
		w.o.Network = p.network
		w.s = w.node()
		before := p.asked.Load()
		rec := w.ask("GET", base+authorizePath+"?"+request(id, appBack, newVerifier()).Encode(), nil)
		if rec.Code != http.StatusBadRequest || strings.Contains(rec.Body.String(), "<form") {
			t.Errorf("%s: %d", id, rec.Code)
		}
		if asked := p.asked.Load() > before; asked != mayAsk {
			t.Errorf("%s: asked %v", id, asked)
		}
	}
	w := newWorld(t, nil)
	w.o.Network = p.network
	w.p.Documents = false
	w.s = w.node()
	if rec := w.ask("GET", base+authorizePath+"?"+request("https://client.example/redirect", appBack, newVerifier()).Encode(), nil); rec.Code != http.StatusBadRequest {
		t.Errorf("switched off: %d", rec.Code)
	}
}

// TestDocumentFlood: one source makes the gateway fetch few documents.
func TestDocumentFlood(t *testing.T) {
	p := newPublisher(t)
	w := newWorld(t, nil)
	w.o.Network = p.network
	w.s = w.node()
	for i := range 100 {
		w.ask("GET", base+authorizePath+"?"+request(fmt.Sprintf("https://client.example/%d", i), appBack, newVerifier()).Encode(), nil)
	}
	if n := p.asked.Load(); n > 25 {
		t.Errorf("%d documents at once", n)
	}
}

// TestDocumentWithKeys: such a client shows an assertion, by keys in its document or at their URL.
func TestDocumentWithKeys(t *testing.T) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	p := newPublisher(t)
	p.documents["/keys"] = string(jwks(private))
	p.documents["/inline"] = fmt.Sprintf(clientDocument, "https://client.example/inline", `, "token_endpoint_auth_method": "private_key_jwt", "jwks": `+string(jwks(private)))
	p.documents["/linked"] = fmt.Sprintf(clientDocument, "https://client.example/linked", `, "token_endpoint_auth_method": "private_key_jwt", "jwks_uri": "https://client.example/keys"`)
	p.documents["/within"] = fmt.Sprintf(clientDocument, "https://client.example/within", `, "token_endpoint_auth_method": "private_key_jwt", "jwks_uri": "https://10.0.0.7/keys"`)
	w := newWorld(t, nil)
	w.o.Network = p.network
	w.s = w.node()
	for id, want := range map[string]int{"https://client.example/inline": 200, "https://client.example/linked": 200, "https://client.example/within": 401} {
		v := newVerifier()
		back := w.browse(request(id, appBack, v))
		if a := w.exchange(id, appBack, v, back); a.status != http.StatusUnauthorized {
			t.Errorf("%s without an assertion: %v", id, a)
		}
		text, err := jwt.NewWithClaims(jwt.SigningMethodES256, jwt.MapClaims{"iss": id, "sub": id, "aud": base + tokenPath, "exp": time.Now().Add(time.Minute).Unix(), "jti": v}).SignedString(private)
		if err != nil {
			t.Fatal(err)
		}
		a := w.exchange(id, appBack, v, back, "client_assertion", text, "client_assertion_type", "urn:ietf:params:oauth:client-assertion-type:jwt-bearer")
		if a.status != want {
			t.Errorf("%s: %v", id, a)
		}
	}
}

// TestPushedRequests: they are used once, by their client, for 90 seconds, and are checked when they are pushed.
func TestPushedRequests(t *testing.T) {
	w := newWorld(t, nil)
	v := newVerifier()
	a := w.post(pushPath, request("app", appBack, v))
	name := a.text("request_uri")
	if a.status != http.StatusCreated || name == "" {
		t.Fatal(a)
	}
	open := func(client string) int {
		return w.ask("GET", base+authorizePath+"?"+url.Values{"client_id": {client}, "request_uri": {name}}.Encode(), nil).Code
	}
	if code := open("other"); code != http.StatusBadRequest {
		t.Errorf("another client's request: %d", code)
	}
	back := w.browse(url.Values{"client_id": {"app"}, "request_uri": {name}, "redirect_uri": {"https://evil.example"}})
	if got := w.exchange("app", appBack, v, back); got.status != http.StatusOK {
		t.Error(got)
	}
	if code := open("app"); code != http.StatusBadRequest {
		t.Errorf("a request is used twice: %d", code)
	}
	for name, a := range map[string]answer{
		"a foreign redirect": w.post(pushPath, request("app", "https://evil.example", v)),
		"no PKCE":            w.post(pushPath, request("app", appBack, v, "code_challenge", "")),
		"a request within":   w.post(pushPath, request("app", appBack, v, "request_uri", name)),
		"no secret":          w.post(pushPath, request("robot", appBack, v)),
	} {
		if a.status < 400 || a.text("request_uri") != "" {
			t.Errorf("%s: %v", name, a)
		}
	}
}

// TestDocumentThatDoesNotCome: a publisher that does not answer keeps a person waiting for 5 seconds.
func TestDocumentThatDoesNotCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		w.o.Network = egress.Network{
			Lookup: func(context.Context, string) ([]netip.Addr, error) {
				return []netip.Addr{netip.MustParseAddr("93.184.216.34")}, nil
			},
			Dial: func(context.Context, string, string) (net.Conn, error) {
				time.Sleep(time.Minute)
				return nil, errors.New("no answer")
			},
		}
		w.s = w.node()
		began := time.Now()
		rec := w.ask("GET", base+authorizePath+"?"+request("https://client.example/slow", appBack, newVerifier()).Encode(), nil)
		if took := time.Since(began); rec.Code != http.StatusBadRequest || took > 5*time.Second {
			t.Errorf("%d after %v", rec.Code, took)
		}
		time.Sleep(time.Minute) // the dial ends
	})
}
