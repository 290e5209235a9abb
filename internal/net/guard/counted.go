package guard

import (
	"net/http"

	"github.com/weir-mcp/weir/internal/limit/memory"
)

// Counted returns next with requests that take the bytes that they make from pool, for an owner or, if that is
// "", for the principal; see memory.Take. They give them back when next returns.
func Counted(pool *memory.Pool, owner string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, scope := memory.WithScope(r.Context())
		defer scope.End()
		if owner != "" {
			scope.Count(pool, "", owner)
		} else {
			scope.Count(pool, "principal ", Principal(ctx))
		}
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}
