package identity

import "context"

// Route says how a request reached weir.
type Route struct {
	Source string // the caller's network address; "" for standard input and output
	// Profile is the profile that the request was made to, "" for none.
	Profile string
}

type routeKey struct{}

// WithRoute returns a context for a request with a route.
func WithRoute(ctx context.Context, r Route) context.Context {
	return context.WithValue(ctx, routeKey{}, r)
}

// RouteOf returns the route of a request, the zero Route if none is known.
func RouteOf(ctx context.Context) Route {
	r, _ := ctx.Value(routeKey{}).(Route)
	return r
}
