package upstream

import (
	"context"
	"net/http"

	"github.com/weir-mcp/weir/internal/upstream/openapi"
)

// connectAPI reads the document of an HTTP API, which is a server without a program and without a connection.
func connectAPI(ctx context.Context, s *slot) (*link, error) {
	srv := s.srv
	of, wrap := srv.cfg.OpenAPI, srv.wrap(s)
	a, err := openapi.Open(ctx, openapi.Options{
		Name: srv.who, Document: of.Document, Base: srv.cfg.URL, Include: of.Include, Exclude: of.Exclude, Header: srv.header, Wrap: func(base http.RoundTripper) http.RoundTripper {
			if wrap != nil {
				base = wrap(base)
			}
			return apiTransport{base, srv}
		},
		MaxResponse: srv.maxResponse(), MaxResponseKey: srv.maxResponseKey(), Room: srv.room(),
	})
	if err != nil {
		return nil, srv.shown(err)
	}
	if a.More > 0 {
		srv.log.Warn("the document has more operations than weir offers", "left_out", a.More)
	}
	return &link{slot: s, peer: a, hello: a.Hello(), done: a.Done(), err: srv.stopped, close: a.Close}, nil
}

// apiTransport tells Options.Failed of requests that an API refuses. Its calls succeed with the refusal as their result.
type apiTransport struct {
	http.RoundTripper
	srv *server
}

func (t apiTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := t.RoundTripper.RoundTrip(r)
	if err == nil && resp.StatusCode == http.StatusUnauthorized {
		t.srv.opts.Failed(t.srv.name)
	}
	return resp, err
}
