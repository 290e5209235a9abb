package clients

import (
	"maps"
	"slices"
	"strings"

	"github.com/weir-mcp/weir/internal/json/splice"
)

// OAuth is how a server lets its users sign in, as an entry says it. weir signs in by itself.
type OAuth struct {
	// ClientID is of a registration at the provider; "" where the client registers by itself.
	ClientID string
	Scopes   []string
}

// oauth reads the login of an entry. The login itself stays the client's: weir makes its own.
func (e *entry) oauth(m splice.Member) {
	switch v := m.Value.(type) {
	case splice.Object:
		e.s.OAuth = &OAuth{}
		for _, inner := range v {
			e.oauthMember(m.Key, inner)
		}
	case string:
		switch {
		case m.Key == "oauth_client_id" || m.Key == "oauthClientId":
			e.registered().ClientID = e.text(m.Key, v)
		case m.Key == "authProviderType" && v != "dynamic_discovery", m.Key == "auth" && !strings.EqualFold(v, "oauth"):
			e.stay("it logs in by %s, which %s does itself", v, e.client.Name)
		default:
			e.registered()
		}
	default:
		e.registered()
	}
}

// registered returns the OAuth of the entry.
func (e *entry) registered() *OAuth {
	if e.s.OAuth == nil {
		e.s.OAuth = &OAuth{}
	}
	return e.s.OAuth
}

func (e *entry) oauthMember(key string, m splice.Member) {
	switch strings.ToLower(strings.ReplaceAll(m.Key, "_", "")) {
	case "clientid":
		e.s.OAuth.ClientID = e.text(key+"."+m.Key, m.Value)
	case "clientsecret":
		// weir sends a secret only to a named issuer, which entries of clients do not have.
		e.stay("it logs in with a client secret: write oauth with client_id, client_secret and issuer into weir.yaml")
	case "scope", "scopes":
		list, ok := texts(m.Value)
		if text, one := m.Value.(string); one {
			list, ok = strings.Fields(text), true
		}
		if !ok {
			e.note(e.s.Name, "%s.%s is no list of texts and is not read", key, m.Key)
		}
		e.s.OAuth.Scopes = slices.DeleteFunc(list, func(s string) bool { return s == "" })
	case "enabled", "callbackport", "redirecturi", "redirecturl", "redirecthost": // of the client's login
	default:
		e.s.Unknown = append(e.s.Unknown, splice.Member{Key: key + "." + m.Key, Value: m.Value})
	}
}

// finishOAuth looks at the whole entry.
func (e *entry) finishOAuth() {
	switch {
	case e.s.OAuth == nil:
	case e.authorized():
		e.s.OAuth = nil // the header serves
	case e.s.URL == "":
		e.stay("it logs in with OAuth, and the login is %s's own", e.client.Name)
	}
}

// redirect is where weir login has the browser come back to.
const redirect = "http://127.0.0.1:33419/callback"

// signIns notes which servers of the plan want a sign-in at weir.
func (p *Plan) signIns() {
	for _, planned := range p.Servers {
		o := planned.Server.OAuth
		if o == nil {
			continue
		}
		text := "weir signs in itself: weir login " + planned.Name
		if o.ClientID != "" {
			text += "; the provider must know the redirect " + redirect + " for the client " + o.ClientID + ", and weir the provider: oauth.issuer"
		}
		p.Notes = append(p.Notes, Note{Client: planned.Server.Client, Server: planned.Server.Name, Text: text})
	}
}

// authorized reports whether the entry has a header with a token.
func (e *entry) authorized() bool {
	return slices.ContainsFunc(slices.Collect(maps.Keys(e.s.Headers)), func(name string) bool { return strings.EqualFold(name, "Authorization") })
}

// member returns the key oauth of weir's configuration; nil where the entry says nothing but that it
// signs in.
func (o *OAuth) member(text func(string) string) splice.Object {
	var out splice.Object
	if o == nil {
		return nil
	}
	if o.ClientID != "" {
		out = append(out, splice.Member{Key: "client_id", Value: text(o.ClientID)})
	}
	if len(o.Scopes) > 0 {
		scopes := make([]any, len(o.Scopes))
		for i, scope := range o.Scopes {
			scopes[i] = text(scope)
		}
		out = append(out, splice.Member{Key: "scopes", Value: scopes})
	}
	return out
}
