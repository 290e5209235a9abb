package authz

import "context"

// Route is the way that a request came.
type Route struct {
	Source string // the caller's network address; "" for standard input and output
	// Profile is the profile that the request was made to, "" for none.
	Profile string
}

type routeKey struct{}

// WithRoute returns a context of a request that came by r.
func WithRoute(ctx context.Context, r Route) context.Context {
	return context.WithValue(ctx, routeKey{}, r)
}

// RouteOf returns the way that a request came.
func RouteOf(ctx context.Context) Route {
	r, _ := ctx.Value(routeKey{}).(Route)
	return r
}
