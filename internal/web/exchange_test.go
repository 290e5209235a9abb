package web_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/testkit/fakeidp"
)

// exchanging is a gateway with the server crm, whose tokens an authorization server gives for those of
// callers.
type exchanging struct {
	*protected
	crm *tap
	as  *fakeidp.Provider
}

// startExchanging starts one. oauth are the keys of crm's oauth; {AS} in them is its issuer.
func startExchanging(t *testing.T, oauth string) *exchanging {
	t.Helper()
	as, server := fakeidp.Start(fakeidp.Options{ClientID: "weir-crm", ClientSecret: "0123456789abcdef-crm"}, "/as")
	t.Cleanup(server.Close)
	crm := newTap(t, false)
	crm.known = func(token string) bool { return as.Claims(token) != nil }
	oauth = strings.ReplaceAll(oauth, "{AS}", as.Issuer())
	p := startServing(t, fmt.Sprintf(`crm: {url: %q, credentials: user, oauth: {issuer: %q, client_id: weir-crm, client_secret: 0123456789abcdef-crm, %s}}, `, crm.url+"/mcp", as.Issuer(), oauth))
	as.Trust(p.idp)
	return &exchanging{p, crm, as}
}

// wants calls crm's echo with a token, and checks that the call passes.
func (e *exchanging) wants(token string) {
	e.t.Helper()
	if body := e.echo(token); !strings.Contains(body, "hello") {
		e.t.Errorf("the call: %s", body)
	}
	if got := e.crm.holding(token); len(got) > 0 {
		e.t.Errorf("the token of the caller went to the server:\n%s", got[0])
	}
}

func (e *exchanging) echo(token string) string {
	return callEcho(e.t.(*testing.T), e.protected, "crm", token)
}

// subjects returns whose tokens the server got.
func (e *exchanging) subjects() (subs []string) {
	e.crm.mu.Lock()
	defer e.crm.mu.Unlock()
	for _, tokens := range e.crm.sent {
		for _, token := range tokens {
			if sub := fmt.Sprint(e.as.Claims(token)["sub"]); !slices.Contains(subs, sub) {
				subs = append(subs, sub)
			}
		}
	}
	slices.Sort(subs)
	return subs
}

// TestTokenExchange: a caller's token gets one for the server, once for a principal and grant.
func TestTokenExchange(t *testing.T) {
	e := startExchanging(t, `flow: token_exchange, scopes: [read], audience: "api://crm"`)
	token := func(user, client string) string { return e.token(user, "", "client_id", client) }
	for _, one := range []string{token("u1", "a"), token("u2", "a"), token("u1", "a"), token("u1", "a")} {
		e.wants(one)
	}
	forms := e.as.Exchanges()
	if len(forms) != 2 || !slices.Equal(e.subjects(), []string{"u1", "u2"}) {
		t.Fatalf("%d exchanges, tokens of %v", len(forms), e.subjects())
	}
	f := forms[0]
	if f.Get("resource") != e.crm.url+"/mcp" || f.Get("audience") != "api://crm" || f.Get("scope") != "read" || f.Get("actor_token") != "" {
		t.Errorf("the exchange asked for %v", f)
	}
	e.wants(token("u1", "b"))
	if n := len(e.as.Exchanges()); n != 3 {
		t.Errorf("%d exchanges after a call by another client", n)
	}
	if body := e.echo(staticToken); !strings.Contains(body, "static tokens and certificates stay here") {
		t.Errorf("a static token: %s", body)
	}
}

// TestExchangeErrors: what the issuer answers decides what the caller reads, and whether it may try again.
func TestExchangeErrors(t *testing.T) {
	e := startExchanging(t, `flow: on_behalf_of, scopes: ["api://crm/.default"]`)
	for i, one := range []struct {
		answer map[string]any
		want   []string
	}{
		{map[string]any{"error": "interaction_required", "error_description": "AADSTS50079: multi-factor", "claims": `{"access_token":{"polids":{"essential":true}}}`}, []string{"interaction_required", "sign in again at corp", "polids", `"server":"crm"`}},
		{map[string]any{"error": "invalid_grant"}, []string{"call with a new access token of corp"}},
		{map[string]any{"error": "invalid_scope"}, []string{"the administrator of the issuer"}},
		{map[string]any{"error": "unauthorized_client"}, []string{"the operator of weir checks mcpServers.crm.oauth"}},
		{map[string]any{"error": "temporarily_unavailable"}, []string{"identity_unavailable", "try again"}},
	} {
		e.as.FailExchanges(one.answer)
		token := e.token("u1", "", "client_id", fmt.Sprint("c", i))
		body := e.echo(token)
		for _, want := range one.want {
			if !strings.Contains(body, want) {
				t.Errorf("%v: %s does not say %q", one.answer, body, want)
			}
		}
		if strings.Contains(body, token) {
			t.Errorf("%v: the token stands in the error", one.answer)
		}
	}
	e.as.FailExchanges(nil)
	e.wants(e.token("u1", "", "client_id", "later"))
	e.as.Outage(true)
	if body := e.echo(e.token("u2", "")); !strings.Contains(body, "identity_unavailable") {
		t.Errorf("in an outage: %s", body)
	}
	e.wants(e.token("u1", "", "client_id", "later")) // the token that weir has serves
}

// TestExchangedTokenOfTooFewScopes: a server that asks for more scopes than the configuration lists does
// not get a token with them, and the caller reads the scopes.
func TestExchangedTokenOfTooFewScopes(t *testing.T) {
	e := startExchanging(t, `flow: token_exchange, scopes: [read]`)
	e.crm.short = func(_, request string) string {
		if !strings.Contains(request, `"tools/call"`) {
			return ""
		}
		return `Bearer error="insufficient_scope", scope="write"`
	}
	body := e.echo(e.token("u1", ""))
	for _, want := range []string{`"scopes":["write"]`, "for want of the scopes write", "oauth.scopes", "the administrator of the issuer"} {
		if !strings.Contains(body, want) {
			t.Errorf("%s does not say %s", body, want)
		}
	}
	forms := e.as.Exchanges()
	for _, form := range forms {
		if form.Get("scope") != "read" {
			t.Errorf("weir asked for %q", form.Get("scope"))
		}
	}
}

// TestExchangeErrorsAtGateway: what the issuer says to the client of a person is in the details of the
// call at /mcp, too. The server lists nothing for that person, so the call is that of sign_in.
func TestExchangeErrorsAtGateway(t *testing.T) {
	e := startExchanging(t, `flow: on_behalf_of, scopes: ["api://crm/.default"]`)
	e.wants(e.token("u1", "")) // lists the server
	e.as.FailExchanges(map[string]any{"error": "interaction_required", "claims": `{"access_token":{"polids":{"essential":true}}}`})
	body := executed(e.protected, e.token("u2", ""), "crm sign in", "crm:sign_in", "{}")
	if !strings.Contains(body, "AUTH_FAILED") || !strings.Contains(body, "polids") {
		t.Error(body)
	}
}

// TestIdentityAssertion gets an assertion at the provider of the callers, and with it a token of the
// server's own authorization server.
func TestIdentityAssertion(t *testing.T) {
	e := startExchanging(t, `flow: id_jag, scopes: [read], idp: {issuer: "{CORP}", client_id: weir-corp, client_secret: 0123456789abcdef-corp}`)
	for range 2 {
		e.wants(e.token("u1", ""))
	}
	first, second := e.idp.Exchanges(), e.as.Exchanges()
	if len(first) != 1 || len(second) != 1 {
		t.Fatalf("%d assertions, %d tokens", len(first), len(second))
	}
	if first[0].Get("audience") != e.as.Issuer() || first[0].Get("resource") != e.crm.url+"/mcp" || second[0].Get("assertion") == "" || second[0].Get("subject_token") != "" {
		t.Errorf("the requests: %v, %v", first[0], second[0])
	}
	if !slices.Equal(e.subjects(), []string{"u1"}) {
		t.Errorf("tokens of %v", e.subjects())
	}
	e.idp.FailExchanges(map[string]any{"error": "access_denied"})
	if body := e.echo(e.token("u2", "")); !strings.Contains(body, "the administrator of the issuer decides") || len(e.as.Exchanges()) != 1 {
		t.Errorf("a person whom the provider refuses: %s", body)
	}
}
