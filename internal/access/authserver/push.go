package authserver

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// pushedPrefix is how RFC 9126 has the names of pushed requests start.
const (
	pushedPrefix = "urn:ietf:params:oauth:request_uri:"
	pushedTime   = 90 * time.Second
)

// pushedRequest is an authorization request that a client has sent ahead. Its name is its content, sealed: it takes no
// room here.
type pushedRequest struct {
	Query url.Values
	Until int64
}

// push answers pushPath (RFC 9126).
func (x *exchange) push() error {
	form, err := x.posted()
	if err != nil {
		return err
	}
	c, err := x.authenticated(form)
	if err != nil {
		return err
	}
	if form.Has("request_uri") {
		return refused("invalid_request", "request_uri must not be pushed")
	}
	key, err := x.proved(pushPath)
	if err != nil {
		return err
	}
	q := url.Values{}
	for name, values := range form {
		switch name {
		case "client_secret", "client_assertion", "client_assertion_type":
		default:
			q[name] = values
		}
	}
	q.Set("client_id", c.ID)
	if key != "" {
		if jkt := q.Get("dpop_jkt"); jkt != "" && jkt != key {
			return refused("invalid_dpop_proof", "dpop_jkt is another key than that of the proof")
		}
		q.Set("dpop_jkt", key)
	}
	if _, err := x.checked(c, q); err != nil {
		return err
	}
	raw, err := json.Marshal(pushedRequest{q, x.unix() + int64(pushedTime/time.Second)})
	if err != nil {
		return err
	}
	name := pushedPrefix + x.key.Seal(purpose+"/pushed", raw, []byte(c.ID))
	if len(name) > 2*maxCookie {
		return refused("invalid_request", "the request is too long")
	}
	x.answer(http.StatusCreated, map[string]any{"request_uri": name, "expires_in": int(pushedTime / time.Second)})
	return nil
}

// pushed returns a request that a client has pushed. It is used once.
func (x *exchange) pushed(name, client string) (url.Values, error) {
	unknown := refused("invalid_request_uri", "The request of the client has ended. Start again in your client.")
	sealed, ok := strings.CutPrefix(name, pushedPrefix)
	if !ok {
		return nil, unknown
	}
	raw, ok := x.key.Open(purpose+"/pushed", sealed, []byte(client))
	var p pushedRequest
	if !ok || json.Unmarshal(raw, &p) != nil || x.unix() >= p.Until {
		return nil, unknown
	}
	fresh, err := x.once(x.r.Context(), "pushed\n"+sealed, pushedTime)
	if err == nil && !fresh {
		err = unknown
	}
	return p.Query, err
}
