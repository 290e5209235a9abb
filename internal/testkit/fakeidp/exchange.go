package fakeidp

import (
	"maps"
	"net/http"
	"net/url"
	"strings"
)

// Trust makes the provider take tokens and assertions of another one, like its own.
func (p *Provider) Trust(other *Provider) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.trusted = append(p.trusted, other)
}

// FailExchanges makes exchanges answer 400 with this; nil ends that.
func (p *Provider) FailExchanges(answer map[string]any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failing = answer
}

// Exchanges returns the forms of the exchanges, in their order.
func (p *Provider) Exchanges() []url.Values {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]url.Values{}, p.forms...)
}

// Claims returns the claims of a token that the provider has issued, nil if it is of another party or
// has ended.
func (p *Provider) Claims(token string) map[string]any {
	p.mu.Lock()
	defer p.mu.Unlock()
	claims := p.issued[token]
	if end, ok := claims["exp"].(int64); !ok || end <= p.o.Now().Unix() {
		return nil
	}
	return claims
}

// subject returns the claims of a token of this provider, or of one that it trusts.
func (p *Provider) subject(token string) map[string]any {
	if claims := p.Claims(token); claims != nil {
		return claims
	}
	p.mu.Lock()
	trusted := append([]*Provider{}, p.trusted...)
	p.mu.Unlock()
	for _, other := range trusted {
		if claims := other.Claims(token); claims != nil {
			return claims
		}
	}
	return nil
}

// URNs of RFC 8693, RFC 7523 and the draft of identity assertions.
const (
	tokenExchange = "urn:ietf:params:oauth:grant-type:token-exchange"
	jwtBearer     = "urn:ietf:params:oauth:grant-type:jwt-bearer"
	idToken       = "urn:ietf:params:oauth:token-type:id_token"
	accessToken   = "urn:ietf:params:oauth:token-type:access_token"
	idJAG         = "urn:ietf:params:oauth:token-type:id-jag"
)

// exchange answers a token request that shows a token or an assertion: token exchange, Entra's
// on-behalf-of, and both steps of the identity assertion.
func (p *Provider) exchange(w http.ResponseWriter, r *http.Request, kind string) {
	form := maps.Clone(r.PostForm)
	p.mu.Lock()
	p.forms = append(p.forms, form)
	failing := p.failing
	p.mu.Unlock()
	refuse := func(code, why string) {
		reply(w, http.StatusBadRequest, map[string]any{"error": code, "error_description": why})
	}
	if failing != nil {
		reply(w, http.StatusBadRequest, failing)
		return
	}
	id, _, basic := r.BasicAuth()
	if !basic {
		id = form.Get("client_id")
	}
	shown, issued := form.Get("subject_token"), form.Get("requested_token_type")
	if kind == jwtBearer {
		shown = form.Get("assertion")
	}
	from := p.subject(shown)
	claims := map[string]any{"sub": from["sub"], "client_id": id, "jti": random()}
	if scope := form.Get("scope"); scope != "" {
		claims["scope"] = scope
	}
	resource := form.Get("resource")
	switch {
	case from == nil:
		refuse("invalid_grant", "the token "+shown+" is not known here")
		return
	case kind == tokenExchange && form.Get("subject_token_type") != accessToken && (form.Get("subject_token_type") != idToken || issued != idJAG):
		refuse("invalid_request", "subject_token_type")
		return
	case kind == tokenExchange && issued == idJAG:
		if form.Get("audience") == "" {
			refuse("invalid_request", "audience")
			return
		}
		claims["aud"], claims["resource"], claims["kind"] = form.Get("audience"), resource, idJAG
		reply(w, http.StatusOK, map[string]any{"access_token": p.Token(claims), "issued_token_type": idJAG, "token_type": "N_A", "expires_in": 300})
		return
	case kind == tokenExchange && issued == accessToken:
		claims["aud"] = []string{resource, form.Get("audience")}
	case kind == jwtBearer && form.Get("requested_token_use") == "on_behalf_of":
		if resource != "" || !strings.Contains(form.Get("scope"), "/") {
			refuse("invalid_request", "AADSTS901002: resource is not supported, and scope names the API")
			return
		}
		claims["aud"] = strings.TrimSuffix(form.Get("scope"), "/.default")
		issued = ""
	case kind == jwtBearer && from["kind"] == idJAG:
		if from["aud"] != p.o.Issuer || from["resource"] != resource {
			refuse("invalid_grant", "the assertion is for another authorization server or resource")
			return
		}
		claims["aud"], issued = resource, ""
	default:
		refuse("unsupported_grant_type", kind)
		return
	}
	answer := map[string]any{"access_token": p.Token(claims), "token_type": "Bearer", "expires_in": 3600}
	if issued != "" {
		answer["issued_token_type"] = issued
	}
	reply(w, http.StatusOK, answer)
}
