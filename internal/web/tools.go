package web

import (
	"net/http"

	"github.com/weir-mcp/weir/internal/metatool/tools"
	"github.com/weir-mcp/weir/internal/net/httpserver"
)

// ToolsPath is the path of the tools that shell commands ask for.
const ToolsPath = "/catalog/tools"

// serveTools answers the tools that fit a query.
//
//	GET /catalog/tools?name=NAME            those that NAME may mean: an id, one without its hash, a tool's own name
//	GET /catalog/tools?prefix=TEXT          the tools whose id or name starts with it; all without it
//	                  &definitions=true     with schemas and annotations
func (f *Server) serveTools(w http.ResponseWriter, r *http.Request) {
	if !getOrHead(w, r) {
		return
	}
	given := r.URL.Query()
	httpserver.WriteJSON(w, http.StatusOK, f.gateway.Views.Tools(r.Context(), tools.Query{
		Name: given.Get("name"), Prefix: given.Get("prefix"), Definitions: given.Get("definitions") == "true",
	}))
}
