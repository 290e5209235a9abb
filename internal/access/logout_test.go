package access_test

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/access"
	"github.com/weir-mcp/weir/internal/testkit/fakeidp"
)

// TestEndLogin: the page where the issuer ends its session knows the person by the ID token, and sends the browser back
// (OpenID Connect RP-Initiated Logout 1.0). A page at another place than the issuer may name is none.
func TestEndLogin(t *testing.T) {
	const out = "https://weir.example/console"
	for name, c := range map[string]struct {
		at    any
		claim string // makes the ID token long
		want  string
		hint  bool
	}{
		"none":                         {at: nil},
		"http":                         {at: "http://id.example/t/out"},
		"no URL":                       {at: "://"},
		"a private address":            {at: "https://10.0.0.1/out"},
		"a page":                       {at: "https://id.example/t/out", want: "https://id.example/t/out?", hint: true},
		"a page with a query":          {at: "https://id.example/out?tenant=1", want: "https://id.example/out?client_id=weir-web&", hint: true},
		"a token too long to be shown": {at: "https://id.example/t/out", claim: strings.Repeat("x", 4<<10), want: "https://id.example/t/out?"},
	} {
		inWorld(t, withLogin, func(w world) {
			w.idp.SetMetadata(map[string]any{"end_session_endpoint": c.at})
			w.idp.SetIDToken(map[string]any{"sub": "ada", "padding": c.claim})
			began := w.beginLogin()
			in, err := w.a.FinishLogin(t.Context(), began.Memo, w.browse(began.Address))
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			at, err := w.a.EndLogin(t.Context(), in.Proof, out)
			u, bad := url.Parse(at)
			if err != nil || bad != nil || (at == "") != (c.want == "") || !strings.HasPrefix(at, c.want) {
				t.Fatalf("%s: to %q, %v", name, at, err)
			}
			if q := u.Query(); at != "" && (q.Get("post_logout_redirect_uri") != out || q.Get("client_id") != "weir-web" || (strings.Count(q.Get("id_token_hint"), ".") == 2) != c.hint) {
				t.Errorf("%s: %s", name, at)
			}
		})
	}
}

// TestLoggedOut: a logout token is of this issuer and this client, of now, and of no other kind.
func TestLoggedOut(t *testing.T) {
	const event = "http://schemas.openid.net/event/backchannel-logout"
	inWorld(t, withLogin, func(w world) {
		token := func(kind string, change map[string]any) string {
			now := time.Now().Unix()
			claims := map[string]any{"iss": issuer, "aud": "weir-web", "iat": now, "exp": now + 120, "jti": "j", "sub": "u1", "sid": "s1", "events": map[string]any{event: map[string]any{}}}
			for name, value := range change {
				if claims[name] = value; value == nil {
					delete(claims, name)
				}
			}
			return w.idp.Signer().Sign(map[string]any{"typ": kind}, claims)
		}
		for name, c := range map[string]struct {
			kind               string
			change             map[string]any
			principal, session string
			want               string
		}{
			"both":            {"logout+jwt", nil, "corp:u1", "s1", ""},
			"without a kind":  {"JWT", nil, "corp:u1", "s1", ""},
			"a session":       {"logout+jwt", map[string]any{"sub": nil}, "", "s1", ""},
			"a person":        {"logout+jwt", map[string]any{"sid": nil}, "corp:u1", "", ""},
			"nothing":         {"logout+jwt", map[string]any{"sid": nil, "sub": nil}, "", "", "neither"},
			"another client":  {"logout+jwt", map[string]any{"aud": "other"}, "", "", "another client"},
			"another issuer":  {"logout+jwt", map[string]any{"iss": "https://id.example/other"}, "", "", "another issuer"},
			"an ID token":     {"JWT", map[string]any{"events": nil}, "", "", "no logout token"},
			"with a nonce":    {"logout+jwt", map[string]any{"nonce": "n"}, "", "", "no logout token"},
			"old":             {"logout+jwt", map[string]any{"iat": time.Now().Unix() - 600}, "", "", "too old"},
			"of the future":   {"logout+jwt", map[string]any{"iat": time.Now().Unix() + 600}, "", "", "too old"},
			"expired":         {"logout+jwt", map[string]any{"exp": time.Now().Unix() - 100}, "", "", "expired"},
			"an access token": {"at+jwt", nil, "", "", "typ"},
		} {
			out, err := w.a.LoggedOut(t.Context(), token(c.kind, c.change))
			switch {
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("%s: %v", name, err)
			case c.want == "" && (err != nil || *out != access.Logout{Principal: c.principal, Session: c.session, ID: "j"}):
				t.Errorf("%s: %+v %v", name, out, err)
			}
		}
		if _, err := w.a.LoggedOut(t.Context(), fakeidp.NewSigner("ES256").Sign(nil, map[string]any{"iss": issuer, "aud": "weir-web", "iat": time.Now().Unix(), "sid": "s1", "events": map[string]any{event: map[string]any{}}})); err == nil {
			t.Error("a key of another party signs a logout token")
		}
		w.wants("a logout token as an access token", token("logout+jwt", map[string]any{"aud": mcpURL, "scope": "mcp"}), "unauthorized")
	})
}
