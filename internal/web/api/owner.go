package api

import (
	"crypto/subtle"
	"net/http"
	"strings"

	"github.com/weir-mcp/weir/internal/identity"
	"github.com/weir-mcp/weir/mcp"
)

// owners knows the user who runs the gateway, by the operator's key and by the tokens of codes.
type owners struct {
	key  identity.Secret
	desk *Desk
}

// by returns the identity of the user if a bearer token is the key or one of the desk; nil for others.
func (o owners) by(bearer string) *identity.Identity {
	id := &identity.Identity{Principal: identity.Local, Roles: []string{operator}}
	if o.key != "" && subtle.ConstantTimeCompare([]byte(bearer), []byte(o.key)) == 1 {
		return id
	}
	var known bool
	if id.Expires, known = o.desk.ends(bearer); !known {
		return nil
	}
	return id
}

// check is the guard.Check of the user's streams. The callers of the gateway do not count there.
func (o owners) check(r *http.Request) (*identity.Identity, error) {
	_, bearer, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if id := o.by(strings.TrimSpace(bearer)); id != nil {
		return id, nil
	}
	return nil, mcp.Errorf(mcp.KindUnauthorized, "the token of the operator's code has ended; run weir open again")
}
