package oauth

import (
	"net/url"
	"strings"
	"testing"
)

// TestGrantOfAnotherConfiguration changes the issuer, the client and the flow of a server after a
// sign-in: the sign-in does not serve any more, and it says why.
func TestGrantOfAnotherConfiguration(t *testing.T) {
	configured := func(w *world) {
		w.idp.Secret = "hunter2"
		w.server.ClientID, w.server.ClientSecret, w.server.Issuer, w.server.Configured = "configured", "hunter2", w.idp.URL, true
	}
	for name, c := range map[string]struct {
		before func(w *world)
		after  func(w *world, s *Server)
		want   string
	}{
		"another issuer":   {nil, func(_ *world, s *Server) { s.Issuer = "https://id.example" }, "oauth.issuer is https://id.example now"},
		"no issuer":        {configured, func(_ *world, s *Server) { s.Issuer, s.ClientSecret = "", "" }, "oauth.issuer does not name any more"},
		"another client":   {nil, func(w *world, s *Server) { configured(w); *s = *w.server }, `oauth.client_id is "configured" now`},
		"no client":        {configured, func(_ *world, s *Server) { s.ClientID, s.ClientSecret = "", "" }, "oauth.client_id does not name any more"},
		"a person's flow":  {func(w *world) { configured(w); w.server.Flow = FlowClientCredentials }, func(_ *world, s *Server) { s.Flow = FlowDevice }, "oauth.flow is device now"},
		"a person's flow2": {func(w *world) { configured(w); w.server.Flow = FlowClientCredentials }, func(_ *world, s *Server) { s.Flow = FlowCode }, "oauth.flow is code now"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			if c.before != nil {
				c.before(w)
			}
			if w.server.Flow != FlowClientCredentials {
				w.signIn("me")
			}
			w.welcome("me")
			if why := w.client.Ended(t.Context(), w.server, "me"); why != "" {
				t.Errorf("a sign-in that serves has ended: %s", why)
			}
			changed := *w.server
			c.after(w, &changed)
			w.server = &changed
			for _, client := range []*Client{w.client, w.another()} {
				_, err := client.Token(t.Context(), w.server, "me")
				if s := needsSignIn(t, err); !strings.Contains(s.Error(), c.want) {
					t.Errorf("err = %v, want %q", err, c.want)
				}
				_, err = getWith(t.Context(), client, w.server, "me")
				if s := needsSignIn(t, err); !strings.Contains(s.Reason, c.want) {
					t.Errorf("a call: err = %v, want %q", err, c.want)
				}
				if client.SignedIn(t.Context(), w.server, "me") {
					t.Error("it counts as a sign-in")
				}
				if why := client.Ended(t.Context(), w.server, "me"); !strings.Contains(why, c.want) {
					t.Errorf("it has ended because %q, want %q", why, c.want)
				}
			}
			if n := w.idp.Count("refreshed"); n != 0 {
				t.Errorf("%d refreshes of a token of another configuration", n)
			}
		})
	}
}

// TestGrantOfAnotherFlow has a person sign in by either flow of persons, and weir sign in by itself
// once the configuration says so.
func TestGrantOfAnotherFlow(t *testing.T) {
	w := newWorld(t)
	w.idp.Secret = "hunter2"
	w.server.ClientID, w.server.ClientSecret, w.server.Issuer, w.server.Configured = "configured", "hunter2", w.idp.URL, true
	w.signIn("me")
	device := *w.server
	device.Flow = FlowDevice
	w.server = &device
	w.welcome("me")
	machine := *w.server
	machine.Flow = FlowClientCredentials
	w.server = &machine
	signIns := w.idp.Count("sign-in")
	w.welcome("me")
	if n := w.idp.Count("sign-in") - signIns; n != 1 {
		t.Errorf("weir has signed in %d times by itself", n)
	}
	if _, _, err := w.client.Begin(t.Context(), w.server, "me", redirect); err == nil || !strings.Contains(err.Error(), "by itself") {
		t.Errorf("a person signs in for weir: %v", err)
	}
}

// TestScopesOfAnotherClient does not ask for the scopes that another client had.
func TestScopesOfAnotherClient(t *testing.T) {
	w := newWorld(t)
	w.server.Scopes = []string{"old"}
	w.signIn("me")
	changed := *w.server
	w.idp.Secret = "hunter2"
	changed.ClientID, changed.Issuer, changed.Configured, changed.Scopes = "configured", w.idp.URL, true, []string{"new"}
	at, _, err := w.client.Begin(t.Context(), &changed, "me", redirect)
	if err != nil {
		t.Fatal(err)
	}
	if u, _ := url.Parse(at); u.Query().Get("scope") != "new" {
		t.Errorf("scope %q", u.Query().Get("scope"))
	}
}
