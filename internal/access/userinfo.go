package access

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"strings"
	"time"

	"github.com/weir-mcp/weir/internal/access/jwk"
)

// lastingToken starts the LoggedIn.Refresh of an issuer whose access tokens last and which has no refresh tokens: the
// token follows.
const lastingToken = "access "

// userInfo asks an issuer about the person of an access token, who was signed in without an ID token.
func (s *state) userInfo(ctx context.Context, l *login, meta *loginMetadata, token string, now time.Time) (*LoggedIn, error) {
	addresses := l.UserInfo
	if len(addresses) == 0 && meta.UserInfo != "" {
		addresses = []string{meta.UserInfo}
	}
	if len(addresses) == 0 || token == "" {
		return nil, fmt.Errorf("the issuer %q answers without an ID token, and has no userinfo_endpoint", l.Issuer)
	}
	var claims map[string]any
	for i, address := range addresses {
		raw, header, err := l.about(ctx, address, token)
		if err != nil {
			return nil, err
		}
		if i == 0 {
			if claims, err = jwk.DecodeObject(raw); err != nil {
				return nil, fmt.Errorf("the userinfo of the issuer %q is not a JSON object", l.Issuer)
			}
			continue
		}
		var list []any
		if err := json.Unmarshal(raw, &list); err != nil {
			return nil, fmt.Errorf("%s is not a JSON list", address)
		}
		u, err := url.Parse(address)
		if err != nil {
			return nil, err
		}
		claims[path.Base(u.Path)] = list
		if strings.Contains(header.Get("Link"), `rel="next"`) { // RFC 8288: the list goes on
			claims["hasgroups"] = true
		}
	}
	v, err := s.identify(l.from, claims, now, false)
	if err != nil {
		return nil, err
	}
	v.id.Scopes = nil
	return &LoggedIn{Identity: v.id}, nil
}

// about asks for what an access token opens.
func (l *login) about(ctx context.Context, address, token string) ([]byte, http.Header, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, nil, err
	}
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("User-Agent", "weir") // GitHub refuses requests without one
	return l.asks.do(r)
}
