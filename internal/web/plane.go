package web

import (
	"errors"
	"log/slog"
	"net/http"
	"strings"

	"github.com/weir-mcp/weir/internal/artifact"
	"github.com/weir-mcp/weir/internal/cluster"
	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/gateway"
	"github.com/weir-mcp/weir/internal/link"
	"github.com/weir-mcp/weir/internal/net/guard"
	"github.com/weir-mcp/weir/internal/net/httpserver"
	"github.com/weir-mcp/weir/s2sp/plane"
	"github.com/weir-mcp/weir/s2sp/table"
)

// OfferPath is the path of offers; a handle follows it.
const OfferPath = "/s2sp/offer/"

// mountPlane routes the data plane. A data URL contains its own token, so it needs no bearer token.
// An offer can be made only by the principal that owns the handle.
//
//	POST /s2sp/data/{token}     rows; the token is spent
//	GET  /s2sp/health
//	POST /s2sp/offer/{handle}   a resource_url for a handle of the caller's; behind the bearer token
func (f *Server) mountPlane(mux *http.ServeMux, open, closed *guard.Guard) {
	mux.Handle("/s2sp/", open.Wrap(nearRows(f.cluster, f.log, f.gateway.Data.Plane.Handler())))
	offers := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { serveOffer(f.gateway, w, r) })
	mux.Handle(OfferPath, f.wholly(closed)(knownOffers(f.cluster, guard.Counted(f.gateway.Data.Memory, "", offers))))
}

// knownOffers refuses offers while the store has not acknowledged this node. The other nodes do not know it then, and
// would take its URLs for URLs of a node that is gone.
func knownOffers(node *cluster.Node, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if cluster.Apart(node) {
			w.Header().Set("Retry-After", "2")
			httpserver.WriteJSON(w, http.StatusServiceUnavailable, map[string]string{"error": "the store of this gateway does not answer, so no other gateway would know the URL; try again"})
			return
		}
		next.ServeHTTP(w, r)
	})
}

// nearRows forwards a request for a table to the node that stores the table. Only that node can enforce that
// a token works once. next serves the tokens of this node.
func nearRows(node *cluster.Node, log *slog.Logger, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token, _ := strings.CutPrefix(r.URL.Path, plane.Path)
		inc := artifact.TokenNode(token)
		if _, _, carried := link.Caller(r.Context()); inc == "" || carried || inc == node.Inc() || r.Method != http.MethodPost {
			next.ServeHTTP(w, r)
			return
		}
		refuse := func(code int, message string) {
			if r.ContentLength != 0 {
				w.Header().Set("Connection", "close") // the body stays unread
			}
			if code == http.StatusServiceUnavailable {
				w.Header().Set("Retry-After", "2")
			}
			httpserver.WriteJSON(w, code, map[string]string{"error": message})
		}
		owner, err := cluster.Owner(r.Context(), node, inc)
		switch {
		case errors.Is(err, cluster.ErrGone):
			refuse(http.StatusNotFound, rowsGone)
			return
		case err != nil:
			refuse(http.StatusServiceUnavailable, "the store of this gateway cannot be asked where the rows are; try again")
			return
		case owner == node.Inc(): // of an earlier incarnation of this process
			next.ServeHTTP(w, r)
			return
		}
		switch err := cluster.Forward(node, owner, w, r); {
		case err == nil, r.Context().Err() != nil:
		case node.Suspect(r.Context(), owner):
			refuse(http.StatusNotFound, rowsGone)
		default: // the URL may be spent, and only its node knows
			log.Warn("rows were asked of a node that does not answer", "inc", owner, "err", err)
			refuse(http.StatusServiceUnavailable, "the node of the rows cannot be reached now; try again")
		}
	})
}

// rowsGone answers a request for rows that ended with their node.
const rowsGone = "Unknown or expired resource: its node is gone; make the call again"

// serveOffer creates a resource_url for one of the caller's artifacts.
func serveOffer(g *gateway.Gateway, w http.ResponseWriter, r *http.Request) {
	refuse := func(code int, message string) { httpserver.WriteJSON(w, code, map[string]string{"error": message}) }
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		refuse(http.StatusMethodNotAllowed, "method not allowed")
		return
	}
	handle := strings.TrimPrefix(r.URL.Path, OfferPath)
	url, expires, err := g.Data.Plane.Offer(r.Context(), guard.Principal(r.Context()), handle)
	var unknown *artifact.Error
	switch {
	case errors.Is(err, table.ErrNotTable):
		refuse(http.StatusUnprocessableEntity, handle+" is no table")
	case errors.As(err, &unknown):
		refuse(http.StatusNotFound, unknown.Error())
	case err != nil:
		refuse(http.StatusServiceUnavailable, err.Error())
	default:
		g.Auditor.Offered(r.Context(), handle, url)
		httpserver.WriteJSON(w, http.StatusOK, map[string]any{"resource_url": url, "expires": expires})
	}
}

// planeURL returns the URL at which other servers reach the gateway.
func planeURL(c *config.Config, base string) string {
	if c.PublicURL != "" {
		return c.PublicURL
	}
	return base
}
