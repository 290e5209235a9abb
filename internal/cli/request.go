package cli

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"maps"
	"net/http"
)

// request is one request of a command to a running gateway, or to a server that has rows.
type request struct {
	method, url, token string
	header             http.Header // nil for none
	body               []byte
	peer               string // names the receiver in errors; "" is the host, because a path may be secret
	moves              bool   // follows redirects; a request with a key must not, because the key is for one gateway
}

// send sends the request. The caller closes the body of the response.
func (q request) send(ctx context.Context) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, q.method, q.url, bytes.NewReader(q.body))
	if err != nil {
		return nil, failf(exitUsage, "%q is no URL", withoutPassword(q.url))
	}
	req.Close = true // one request: do not keep the connection
	maps.Copy(req.Header, q.header)
	if q.token != "" {
		req.Header.Set("Authorization", "Bearer "+q.token)
	}
	client := &http.Client{}
	if !q.moves {
		client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	}
	resp, err := client.Do(req)
	switch {
	case err == nil:
		return resp, nil
	case errors.Is(ctx.Err(), context.Canceled):
		return nil, ctx.Err()
	}
	return nil, failf(exitUnavailable, "cannot reach %s: %w", cmp.Or(q.peer, req.URL.Host), urlCause(err))
}
