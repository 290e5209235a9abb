package dispatch

import (
	"context"
	"encoding/json"

	"github.com/weir-mcp/weir/internal/identity"
	"github.com/weir-mcp/weir/internal/json/rawjson"
)

// ofServer are members of params that a server has made, or has asked the person for: they are no
// arguments of the model.
var ofServer = []string{"inputResponses", "requestState"}

// leak returns the error for an act that would hand a secret to a server, or nil. The error says where
// the secret stands, and never what it is. No person is asked: the question would show the secret.
func (c *Controls) leak(ctx context.Context, a *Act) error {
	if c.Leaks == nil || !ActsOnUpstream(a.Verb) {
		return nil
	}
	at, leaks := "", c.Leaks.With(string(identity.From(ctx).Bearer))
	look := func(name string, value json.RawMessage) bool {
		at = leaks.Find(name, value)
		return at == ""
	}
	if len(a.args) > 0 {
		look("arguments", a.args)
	}
	if at == "" && len(a.Params) > 0 {
		err := rawjson.EachMember(a.Params, func(m rawjson.Member) bool {
			for _, name := range ofServer {
				if string(m.Key) == name {
					return true
				}
			}
			return look(string(m.Key), m.Value)
		})
		if err != nil {
			return err // cannot happen: Rewrite wrote them
		}
	}
	if at == "" {
		return nil
	}
	v := verdict{action: Deny, rule: heldSecret}
	a.decided = decision{made: true, by: v}
	s := orNone(a.About)[0]
	a.Of = s.Entry
	return v.refusal(a, s, "a credential, or a text that looks like one, stands in "+at+
		"; leave it out: servers get their credentials from weir (guards.secrets.args: deny)")
}
