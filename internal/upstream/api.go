package upstream

import (
	"context"

	"github.com/weir-mcp/weir/internal/upstream/openapi"
)

// connectAPI reads the document of an HTTP API, which is a server without a program and without a connection.
func connectAPI(ctx context.Context, s *slot) (*link, error) {
	srv := s.srv
	of := srv.cfg.OpenAPI
	a, err := openapi.Open(ctx, openapi.Options{
		Name: srv.who, Document: of.Document, Base: srv.cfg.URL, Include: of.Include, Exclude: of.Exclude, Header: srv.header, Wrap: srv.wrap(s),
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
