package fakeidp

import (
	"crypto/sha256"
	"maps"
	"net/http"
	"net/url"
	"strings"
)

// A grant is the meaning of a code or a refresh token.
type grant struct {
	client, redirect, challenge, resource, scope, nonce string
}

// authorize signs the user in at once and sends the browser back with a code.
func (p *Provider) authorize(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	back, err := url.Parse(q.Get("redirect_uri"))
	if err != nil || back.Scheme == "" || q.Get("code_challenge_method") != "S256" || q.Get("code_challenge") == "" {
		http.Error(w, "invalid_request: redirect_uri and a code_challenge by S256 are needed", http.StatusBadRequest)
		return
	}
	code := "code-" + random()
	p.mu.Lock()
	p.codes[code] = grant{q.Get("client_id"), back.String(), q.Get("code_challenge"), q.Get("resource"), q.Get("scope"), q.Get("nonce")}
	p.mu.Unlock()
	answer := back.Query()
	answer.Set("code", code)
	answer.Set("state", q.Get("state"))
	answer.Set("iss", p.o.Issuer)
	back.RawQuery = answer.Encode()
	http.Redirect(w, r, back.String(), http.StatusFound)
}

// token exchanges a code or a refresh token, each once, or serves client credentials.
func (p *Provider) token(w http.ResponseWriter, r *http.Request) {
	_, _, basic := r.BasicAuth()
	switch admitted := r.Method == http.MethodPost && p.admits(r); {
	case p.o.Plain && (basic || !admitted):
		reply(w, http.StatusOK, map[string]any{"error": "incorrect_client_credentials"})
		return
	case !admitted:
		reply(w, http.StatusUnauthorized, map[string]any{"error": "invalid_client"})
		return
	}
	if kind := r.FormValue("grant_type"); strings.HasPrefix(kind, "urn:") {
		p.exchange(w, r, kind)
		return
	}
	var g grant
	ok := true
	p.mu.Lock()
	switch kind := r.FormValue("grant_type"); kind {
	case "authorization_code":
		g, ok = p.codes[r.FormValue("code")]
		delete(p.codes, r.FormValue("code"))
		sum := sha256.Sum256([]byte(r.FormValue("code_verifier")))
		ok = ok && g.challenge == encode(sum[:]) && g.redirect == r.FormValue("redirect_uri")
	case "refresh_token":
		g, ok = p.refresh[r.FormValue("refresh_token")]
		delete(p.refresh, r.FormValue("refresh_token"))
	case "client_credentials":
		id, _, basic := r.BasicAuth()
		if !basic {
			id = r.FormValue("client_id")
		}
		g = grant{client: id, resource: r.FormValue("resource"), scope: r.FormValue("scope")}
	default:
		ok = false
	}
	p.mu.Unlock()
	if !ok && p.o.Plain {
		reply(w, http.StatusOK, map[string]any{"error": "bad_verification_code"})
		return
	}
	if !ok {
		reply(w, http.StatusBadRequest, map[string]any{"error": "invalid_grant"})
		return
	}
	claims := map[string]any{"client_id": g.client, "jti": random()}
	if g.resource != "" {
		claims["aud"] = g.resource
	}
	if g.scope != "" {
		claims["scope"] = g.scope
	}
	answer := map[string]any{"access_token": p.Token(claims), "token_type": "Bearer", "expires_in": 3600, "scope": g.scope}
	if p.o.Plain {
		reply(w, http.StatusOK, answer)
		return
	}
	if strings.Contains(" "+g.scope+" ", " openid ") {
		claims := map[string]any{"aud": g.client, "nonce": g.nonce, "at_hash": "x"}
		p.mu.Lock()
		maps.Copy(claims, p.idToken)
		p.mu.Unlock()
		answer["id_token"] = p.Token(claims)
	}
	if r.FormValue("grant_type") != "client_credentials" {
		next := "refresh-" + random()
		p.mu.Lock()
		p.refresh[next] = g
		p.mu.Unlock()
		answer["refresh_token"] = next
	}
	reply(w, http.StatusOK, answer)
}
