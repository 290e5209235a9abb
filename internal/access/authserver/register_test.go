package authserver_test

import (
	"crypto/ecdsa"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// jwks returns the set of a public key.
func jwks(private *ecdsa.PrivateKey) json.RawMessage {
	point, err := private.PublicKey.Bytes()
	if err != nil {
		panic(err) // a key of P-256 has them
	}
	b64 := base64.RawURLEncoding.EncodeToString
	return fmt.Appendf(nil, `{"keys": [{"kty": "EC", "crv": "P-256", "x": %q, "y": %q}]}`, b64(point[1:33]), b64(point[33:]))
}

func (w *world) registration(body, source string) *httptest.ResponseRecorder {
	r := httptest.NewRequest("POST", base+registerPath, strings.NewReader(body))
	r.RemoteAddr = source + ":1234"
	rec := httptest.NewRecorder()
	w.s.ServeHTTP(rec, r)
	return rec
}

// registered registers a client and returns its id.
func (w *world) registered(body string) string {
	w.t.Helper()
	rec := w.registration(body, "192.0.2.7")
	var out struct {
		ID string `json:"client_id"`
	}
	if err := json.Unmarshal(rec.Body.Bytes(), &out); err != nil || rec.Code != http.StatusCreated {
		w.t.Fatalf("%d %s", rec.Code, rec.Body)
	}
	return out.ID
}

// TestRegistrationsThatAreRefused have redirects or keys that no client of MCP needs.
func TestRegistrationsThatAreRefused(t *testing.T) {
	w := newWorld(t, nil)
	for _, body := range []string{
		`{`, `[]`, `{}`, `{"redirect_uris": []}`, `{"redirect_uris": ["javascript:alert(1)"]}`, `{"redirect_uris": ["data:text/html,x"]}`,
		`{"redirect_uris": ["http://app.example/back"]}`, `{"redirect_uris": ["https://a@app.example/"]}`, `{"redirect_uris": ["https://app.example/#x"]}`,
		`{"redirect_uris": ["https://*.example/"]}`, `{"redirect_uris": ["ms-msdt:/id"]}`, `{"redirect_uris": ["https://app.example/", "vbscript:x"]}`,
		`{"redirect_uris": ["https://app.example/"], "grant_types": ["implicit"]}`, `{"redirect_uris": ["https://app.example/"], "response_types": ["token"]}`,
		`{"redirect_uris": ["https://app.example/"], "token_endpoint_auth_method": "tls_client_auth"}`,
		`{"redirect_uris": ["https://app.example/"], "token_endpoint_auth_method": "private_key_jwt"}`,
		`{"redirect_uris": ["https://app.example/"], "client_name": "` + strings.Repeat("x", 17<<10) + `"}`,
		`{"redirect_uris": ["https://app.example/` + strings.Repeat("x", 600) + `"]}`,
	} {
		if rec := w.registration(body, "192.0.2.7"); rec.Code != http.StatusBadRequest {
			t.Errorf("%.80s: %d %s", body, rec.Code, rec.Body)
		}
	}
	for _, redirect := range []string{"https://claude.ai/api/mcp/auth_callback", "http://localhost:1/cb", "http://[::1]/cb", "cursor://anysphere.cursor-mcp/oauth/callback", "vscode://x", "com.example.app:/cb"} {
		w.registered(fmt.Sprintf(`{"redirect_uris": [%q]}`, redirect))
	}
	w.p.RegistrationHosts = []string{"claude.ai", "localhost"}
	w.s.Apply(&w.p)
	for body, want := range map[string]int{
		`{"redirect_uris": ["https://claude.ai/x", "http://127.0.0.1/x"]}`:   http.StatusCreated,
		`{"redirect_uris": ["https://claude.ai/x", "https://evil.example"]}`: http.StatusBadRequest,
		`{"redirect_uris": ["cursor://x/y"]}`:                                http.StatusBadRequest,
	} {
		if rec := w.registration(body, "192.0.2.8"); rec.Code != want {
			t.Errorf("%s: %d %s", body, rec.Code, rec.Body)
		}
	}
}

// TestRegistrationFlood: one source gets few registrations, all together a bound, and those that a person has signed in
// with stay.
func TestRegistrationFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		const body = `{"redirect_uris": ["https://app.example/back"]}`
		used, idle := w.registered(body), w.registered(body)
		v := newVerifier()
		w.browse(request(used, appBack, v))
		taken := 0
		for range 100 {
			if w.registration(body, "192.0.2.9").Code == http.StatusCreated {
				taken++
			}
		}
		if taken > 10 {
			t.Errorf("one source has registered %d clients at once", taken)
		}
		for i := range 1100 {
			time.Sleep(2 * time.Second)
			if rec := w.registration(body, fmt.Sprintf("198.51.%d.%d", i/200, i%200)); rec.Code != http.StatusCreated {
				t.Fatalf("%d: %d %s", i, rec.Code, rec.Body)
			}
		}
		count := 0
		for _, err := range w.docs.List(t.Context(), "as.client.") {
			if err != nil {
				t.Fatal(err)
			}
			count++
		}
		if count > 1000 {
			t.Errorf("%d registrations are kept", count)
		}
		if code := w.ask("GET", base+authorizePath+"?"+request(used, appBack, v).Encode(), nil).Code; code != http.StatusOK {
			t.Errorf("a client in use is gone: %d", code)
		}
		if code := w.ask("GET", base+authorizePath+"?"+request(idle, appBack, v).Encode(), nil).Code; code != http.StatusBadRequest {
			t.Errorf("the oldest idle client stays: %d", code)
		}
	})
}

// TestUnusedRegistrationEnds after a day; one that is used stays.
func TestUnusedRegistrationEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		const body = `{"redirect_uris": ["https://app.example/back"], "token_endpoint_auth_method": "client_secret_post"}`
		used, idle := w.registered(body), w.registered(body)
		v := newVerifier()
		w.browse(request(used, appBack, v))
		time.Sleep(25 * time.Hour)
		for id, want := range map[string]int{used: http.StatusOK, idle: http.StatusBadRequest} {
			if code := w.ask("GET", base+authorizePath+"?"+request(id, appBack, v).Encode(), nil).Code; code != want {
				t.Errorf("%d, want %d", code, want)
			}
		}
	})
}

// TestRegisteredSecret: a client that wants a secret has one, which no store keeps, and needs it.
func TestRegisteredSecret(t *testing.T) {
	w := newWorld(t, nil)
	rec := w.registration(`{"redirect_uris": ["https://app.example/back"], "token_endpoint_auth_method": "client_secret_basic"}`, "192.0.2.7")
	var out map[string]any
	if err := json.Unmarshal(rec.Body.Bytes(), &out); err != nil {
		t.Fatal(err)
	}
	id, own := out["client_id"].(string), out["client_secret"].(string)
	for name, c := range map[string]struct {
		change []string
		header []string
		want   int
	}{
		"none":  {nil, nil, http.StatusUnauthorized},
		"wrong": {[]string{"client_secret", "x"}, nil, http.StatusUnauthorized},
		"right": {[]string{"client_secret", own}, nil, http.StatusOK},
	} {
		v := newVerifier()
		back := w.browse(request(id, appBack, v))
		if a := w.exchange(id, appBack, v, back, c.change...); a.status != c.want {
			t.Errorf("%s: %v", name, a)
		}
	}
	if a := w.post(revokePath, url.Values{"client_id": {id}, "token": {"x"}}); a.status != http.StatusUnauthorized {
		t.Errorf("revocation without the secret: %v", a)
	}
}
