package web

import (
	"net/http"

	"github.com/weir-mcp/weir/internal/metatool"
	"github.com/weir-mcp/weir/internal/net/guard"
	"github.com/weir-mcp/weir/internal/text"
	"github.com/weir-mcp/weir/mcp"
)

// How an agent asks for a mode other than the configured one, with each request to /mcp or with the GET of /sse.
const (
	modeHeader = "Weir-Mode"
	modeQuery  = "mode"
)

// inMode is the gate that makes a request one of the mode that it asks for. A request for a mode that
// does not exist, or for two, is answered with 400.
func inMode(w http.ResponseWriter, r *http.Request) (*http.Request, bool) {
	asked := r.Header.Values(modeHeader)
	if r.URL.RawQuery != "" {
		asked = append(asked[:len(asked):len(asked)], r.URL.Query()[modeQuery]...)
	}
	if len(asked) == 0 {
		return r, true
	}
	for _, name := range asked {
		if name != asked[0] {
			refuseMode(w, r, "the request asks for two modes, %q and %q: Weir-Mode and ?mode= must say the same", asked[0], name)
			return nil, false
		}
	}
	mode, ok := metatool.ParseMode(asked[0])
	if !ok {
		refuseMode(w, r, "the mode %q (Weir-Mode or ?mode=) must be auto, plain, gateway or proxy", asked[0])
		return nil, false
	}
	return r.WithContext(metatool.WithMode(r.Context(), mode)), true
}

// refuseMode answers 400. The format has a place for each of the names, which are the client's.
func refuseMode(w http.ResponseWriter, r *http.Request, format string, names ...string) {
	args := make([]any, len(names))
	for i, name := range names {
		args[i] = text.Line(name, 40)
	}
	guard.Refuse(w, r, http.StatusBadRequest, mcp.Errorf(mcp.KindInvalidRequest, format, args...))
}
