package oauth

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/testkit/oauthtest"
)

// TestCallback plays what must not end a sign-in.
func TestCallback(t *testing.T) {
	w := newWorld(t)
	begin := func() url.Values {
		t.Helper()
		at, _, err := w.client.Begin(t.Context(), w.server, "me", redirect)
		if err != nil {
			t.Fatal(err)
		}
		back, err := w.idp.Browse(at)
		if err != nil {
			t.Fatal(err)
		}
		return back.Query()
	}
	finish := func(principal string, q url.Values) error {
		_, err := w.client.Finish(t.Context(), principal, tailOf(w.idp.URL), q)
		return err
	}
	if err := finish("you", begin()); !errors.Is(err, errState) {
		t.Errorf("the sign-in of another principal: %v", err)
	}
	q := begin()
	w.pass(pendingTime + time.Second)
	if err := finish("me", q); !errors.Is(err, errState) {
		t.Errorf("after 10 minutes: %v", err)
	}
	q = begin()
	q.Set("iss", w.idp.URL+"/")
	if err := finish("me", q); err == nil || !strings.Contains(err.Error(), "issuer") {
		t.Errorf("another issuer: %v", err)
	}
	q = begin()
	q.Del("iss")
	if err := finish("me", q); err == nil || !strings.Contains(err.Error(), "issuer") {
		t.Errorf("without the issuer that is advertised: %v", err)
	}
	if err := finish("me", url.Values{"state": {""}, "code": {"x"}}); !errors.Is(err, errState) {
		t.Errorf("without a state: %v", err)
	}
	q = begin()
	if err := finish("me", q); err != nil {
		t.Fatal(err)
	}
	if err := finish("me", q); !errors.Is(err, errState) {
		t.Errorf("a second time: %v", err)
	}
	// An issuer that is named although that is not advertised, and matches.
	w.idp.Metadata = map[string]any{"authorization_response_iss_parameter_supported": nil}
	if err := finish("me", begin()); err != nil {
		t.Errorf("an unadvertised issuer that matches: %v", err)
	}
	q = begin()
	q.Del("code")
	q.Set("error", "access_denied")
	q.Set("error_description", "the person\nsaid no")
	if err := finish("me", q); err == nil || !strings.Contains(err.Error(), "access_denied: the person said no") {
		t.Errorf("err = %v", err)
	}
}

// TestMixUp lets the issuer of one server send the browser on to the issuer of another one, which names
// itself nowhere. The code of the latter must not reach the former, at any address that the latter sends
// browsers back to.
func TestMixUp(t *testing.T) {
	for what, back := range map[string]func(good, evil string) string{
		"the address of the good issuer":   func(good, _ string) string { return redirect + tailOf(good) },
		"the address of earlier versions":  func(_, _ string) string { return redirect },
		"another spelling of the evil one": func(_, evil string) string { return redirect + tailOf(evil) + "/" },
	} {
		t.Run(what, func(t *testing.T) {
			w := newWorld(t)
			w.idp.NoIssuer, w.idp.Metadata = true, map[string]any{"authorization_response_iss_parameter_supported": nil}
			w.idp.Secret = "x" // "configured" is a client of the good issuer that has any redirect
			evil := oauthtest.New()
			defer evil.Close()
			onward := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				q := r.URL.Query()
				q.Set("client_id", "configured")
				q.Set("redirect_uri", back(w.idp.URL, evil.URL))
				http.Redirect(rw, r, w.idp.URL+"/authorize?"+q.Encode(), http.StatusFound)
			}))
			defer onward.Close()
			evil.Metadata = map[string]any{"authorization_endpoint": onward.URL, "authorization_response_iss_parameter_supported": nil}
			at, _, err := w.client.Begin(t.Context(), &Server{Name: "evil", URL: evil.URL + "/mcp", Flow: FlowCode}, "me", redirect)
			if err != nil {
				t.Fatal(err)
			}
			good, err := evil.Browse(at)
			if err != nil {
				t.Fatal(err)
			}
			came, err := w.idp.Browse(good.String())
			if err != nil {
				t.Fatal(err)
			}
			name, err := w.client.Finish(t.Context(), "me", tailAt(came), came.Query())
			if name != "evil" || err == nil || !strings.Contains(err.Error(), "another issuer") {
				t.Errorf("%q: %v", name, err)
			}
			if evil.Count("/token") != 0 {
				t.Error("the code went to the evil issuer")
			}
		})
	}
}

// TestRedirects compares the redirects of two issuers, and of a client that the configuration names.
func TestRedirects(t *testing.T) {
	w := newWorld(t)
	redirectOf := func() string {
		t.Helper()
		at, _, err := w.client.Begin(t.Context(), w.server, "me", redirect)
		if err != nil {
			return err.Error()
		}
		u, _ := url.Parse(at)
		return u.Query().Get("redirect_uri")
	}
	if got := redirectOf(); got != redirect+tailOf(w.idp.URL) || got == redirect+tailOf(w.idp.URL+"/") || len(got) != len(redirect)+33 {
		t.Errorf("redirect %s", got)
	}
	w.server.ClientID = "configured"
	if got := redirectOf(); !strings.Contains(got, `write oauth.issuer: "`+w.idp.URL+`"`) {
		t.Errorf("a client of an issuer that the server chooses: %s", got)
	}
	w.server.Issuer = w.idp.URL
	if got := redirectOf(); got != redirect {
		t.Errorf("redirect of a configured client: %s", got)
	}
}

// TestParams sends further parameters, and no resource where the issuer knows none.
func TestParams(t *testing.T) {
	w := newWorld(t)
	w.idp.NoResource = true
	w.server.NoResource, w.server.Params = true, map[string]string{"audience": "api://x", "response_type": "token"}
	at, _, err := w.client.Begin(t.Context(), w.server, "me", redirect)
	if err != nil {
		t.Fatal(err)
	}
	u, _ := url.Parse(at)
	if q := u.Query(); q.Get("audience") != "api://x" || q.Get("response_type") != "code" {
		t.Errorf("query %v", q)
	}
	w.signIn("me")
	w.pass(50 * time.Minute)
	w.welcome("me")
}
