package oauth

import (
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"
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
		_, err := w.client.Finish(t.Context(), principal, q)
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
