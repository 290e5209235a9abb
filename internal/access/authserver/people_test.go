package authserver_test

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-mcp/weir/internal/access/authserver"
	"github.com/weir-mcp/weir/internal/identity"
)

// provider is where people sign in.
type provider struct {
	mu      sync.Mutex // guards below
	person  authserver.Person
	fail    error
	state   string
	renewed int
}

func (*provider) Name() string { return "corp" }

func (p *provider) Begin(_ context.Context, hint string) (address, state string, memo identity.Secret, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.state = newVerifier()[:26]
	return "https://id.example/authorize?login_hint=" + hint, p.state, identity.Secret("memo of " + p.state), p.fail
}

func (p *provider) Finish(_ context.Context, memo identity.Secret, q map[string][]string) (*authserver.Person, error) {
	if string(memo) != "memo of "+q["state"][0] {
		return nil, errors.New("the memo of another sign-in")
	}
	out := p.person
	return &out, nil
}

func (p *provider) Again(_ context.Context, before authserver.Person) (*authserver.Person, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.renewed++
	if p.fail != nil {
		return nil, p.fail
	}
	out := p.person
	return &out, nil
}

func newCompany(t *testing.T) (*world, *provider) {
	p := &provider{person: authserver.Person{Principal: "corp:u1", Issuer: "corp", Subject: "u1", Groups: []string{"dev"}, Refresh: "r1", Session: "s1"}}
	return newWorld(t, func(policy *authserver.Policy) { policy.People = p }), p
}

// signIn signs the person in with a client and returns the tokens.
func (w *world) signIn(p *provider, client, redirect string) answer {
	w.t.Helper()
	v := newVerifier()
	rec := w.ask("GET", base+authorizePath+"?"+request(client, redirect, v, "login_hint", "ann@corp.example").Encode(), nil)
	if at := rec.Header().Get("Location"); rec.Code != http.StatusFound || !strings.HasPrefix(at, "https://id.example/authorize?login_hint=ann@corp.example") {
		w.t.Fatalf("%d to %q", rec.Code, at)
	}
	rec = w.ask("GET", base+"/callback?state="+p.state+"&code=c", nil)
	if rec.Code == http.StatusOK {
		rec = w.ask("POST", base+consentPath, url.Values{"request": {w.hidden(rec)}, "decision": {"allow"}})
	}
	back, err := rec.Result().Location()
	if err != nil {
		w.t.Fatalf("%d %s", rec.Code, rec.Body)
	}
	return w.exchange(client, redirect, v, back)
}

// TestProvider: people sign in elsewhere, come back to their own browser, and are looked up again at each refresh.
func TestProvider(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, p := newCompany(t)
		a := w.signIn(p, "app", appBack)
		if a.status != http.StatusOK || w.opens(a.text("access_token"), "/mcp") != nil {
			t.Fatal(a)
		}
		// The way back is of one browser, and works once.
		w.ask("GET", base+authorizePath+"?"+request("app", loopBack, newVerifier()).Encode(), nil)
		mine := w.jar
		w.jar = map[string]string{}
		if rec := w.ask("GET", base+"/callback?state="+p.state+"&code=c", nil); rec.Code != http.StatusTeapot {
			t.Errorf("another browser comes back: %d", rec.Code)
		}
		w.jar = mine
		if rec := w.ask("GET", base+"/callback?state=forged&code=c", nil); rec.Code != http.StatusTeapot {
			t.Errorf("another state: %d", rec.Code)
		}
		if rec := w.ask("GET", base+"/callback?state="+p.state+"&code=c", nil); rec.Code != http.StatusOK {
			t.Errorf("back: %d", rec.Code)
		}
		if rec := w.ask("GET", base+"/callback?state="+p.state+"&code=c", nil); rec.Code != http.StatusTeapot {
			t.Errorf("back twice: %d", rec.Code)
		}
		if rec := w.ask("POST", base+signInPath, url.Values{"request": {p.state}, "name": {"ann"}, "password": {"right"}}); rec.Code != http.StatusBadRequest {
			t.Errorf("a password where people sign in at the provider: %d", rec.Code)
		}

		p.person.Groups, p.person.Refresh = []string{"ops"}, "r2"
		b := w.refresh("app", a.text("refresh_token"))
		if b.status != http.StatusOK || !strings.Contains(claims(t, b.text("access_token")), "ops") || p.renewed != 1 {
			t.Errorf("%v", b)
		}
		p.fail = errors.New("the provider is down")
		time.Sleep(time.Minute)
		if c := w.refresh("app", b.text("refresh_token")); c.status != http.StatusServiceUnavailable {
			t.Errorf("the provider is down: %v", c)
		}
		p.fail = nil
		c := w.refresh("app", b.text("refresh_token"))
		if c.status != http.StatusOK {
			t.Errorf("the provider is back: %v", c)
		}
		p.fail = authserver.ErrGone
		if d := w.refresh("app", c.text("refresh_token")); d.text("error") != "invalid_grant" || w.opens(c.text("access_token"), "/mcp") == nil {
			t.Errorf("the person is gone: %v", d)
		}
	})
}

// TestProviderWithoutRefreshTokens: a person who cannot be looked up again signs in each 12 hours.
func TestProviderWithoutRefreshTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, p := newCompany(t)
		p.person.Refresh = ""
		a := w.signIn(p, "app", appBack)
		time.Sleep(11 * time.Hour)
		b := w.refresh("app", a.text("refresh_token"))
		if b.status != http.StatusOK || p.renewed != 0 {
			t.Fatal(b)
		}
		time.Sleep(2 * time.Hour)
		if c := w.refresh("app", b.text("refresh_token")); c.text("error") != "invalid_grant" {
			t.Errorf("%v", c)
		}
	})
}

// TestLogouts: by the provider, of a session, a person or both; by the client; and none by others.
func TestLogouts(t *testing.T) {
	w, p := newCompany(t)
	works := func(a answer) bool { return w.opens(a.text("access_token"), "/mcp") == nil }
	first := w.signIn(p, "app", appBack)
	p.person.Session = "s2"
	second := w.signIn(p, "app", appBack)
	logout := func(principal, session string) {
		t.Helper()
		if err := w.s.LoggedOut(t.Context(), principal, session); err != nil {
			t.Error(err)
		}
	}
	for _, other := range [][2]string{{"corp:u1", "s9"}, {"corp:other", ""}, {"", "s9"}} {
		if logout(other[0], other[1]); !works(first) || !works(second) {
			t.Fatalf("%q ends a sign-in", other)
		}
	}
	if logout("", "s1"); works(first) || !works(second) {
		t.Error("a session")
	}
	if a := w.refresh("app", first.text("refresh_token")); a.text("error") != "invalid_grant" {
		t.Error(a)
	}
	if logout("corp:u1", ""); works(second) {
		t.Error("a person")
	}

	third := w.signIn(p, "app", appBack)
	if w.post(revokePath, url.Values{"client_id": {"other"}, "token": {third.text("refresh_token")}}); !works(third) {
		t.Error("another client revokes")
	}
	if w.post(revokePath, url.Values{"client_id": {"app"}, "token": {third.text("access_token")}}); works(third) {
		t.Error("revoked by the access token")
	}
}

// TestLogoutByTheClient: an ID token of this server ends its session, and the browser goes to a registered address only.
func TestLogoutByTheClient(t *testing.T) {
	w := newWorld(t, nil)
	for name, c := range map[string]struct {
		change []string
		ends   bool
		to     string
	}{
		"no token":         {[]string{"id_token_hint", ""}, false, ""},
		"another token":    {[]string{"id_token_hint", "access"}, false, ""},
		"another client":   {[]string{"client_id", "other"}, false, ""},
		"nowhere":          {nil, true, ""},
		"a known address":  {[]string{"post_logout_redirect_uri", "https://app.example/out"}, true, "https://app.example/out?state=x%26y"},
		"an open redirect": {[]string{"post_logout_redirect_uri", "https://evil.example/out"}, true, ""},
		"a tail":           {[]string{"post_logout_redirect_uri", "https://app.example/out/../evil"}, true, ""},
	} {
		a := w.signedIn("mcp openid")
		q := url.Values{"id_token_hint": {a.text("id_token")}, "state": {"x&y"}}
		for i := 0; i+1 < len(c.change); i += 2 {
			q.Set(c.change[i], strings.Replace(c.change[i+1], "access", a.text("access_token"), 1))
		}
		rec := w.ask("GET", base+logoutPath+"?"+q.Encode(), nil)
		if ended := w.opens(a.text("access_token"), "/mcp") != nil; ended != c.ends || rec.Header().Get("Location") != c.to {
			t.Errorf("%s: ended %v, to %q", name, ended, rec.Header().Get("Location"))
		}
	}
}

// TestLogoutDuringASignIn: a page or a code that was open when the provider signed the person out gives no tokens. A later
// sign-in does.
func TestLogoutDuringASignIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, out := range [][2]string{{"corp:u1", "s1"}, {"", "s1"}, {"corp:u1", ""}} {
			w, p := newCompany(t)
			v := newVerifier()
			w.ask("GET", base+authorizePath+"?"+request("app", appBack, v).Encode(), nil)
			page := w.hidden(w.ask("GET", base+"/callback?state="+p.state+"&code=c", nil))
			time.Sleep(2 * time.Second)
			if err := w.s.LoggedOut(t.Context(), out[0], out[1]); err != nil {
				t.Fatal(err)
			}
			back, err := w.ask("POST", base+consentPath, url.Values{"request": {page}, "decision": {"allow"}}).Result().Location()
			if err != nil {
				t.Fatal(err)
			}
			if a := w.exchange("app", appBack, v, back); a.text("error") != "invalid_grant" {
				t.Errorf("after a logout of %q: %v", out, a)
			}
			time.Sleep(2 * time.Second)
			if a := w.signIn(p, "app", appBack); a.status != http.StatusOK {
				t.Errorf("a later sign-in, after a logout of %q: %v", out, a)
			}
		}
	})
}
