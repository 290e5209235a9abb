package passthrough

import (
	"crypto/rand"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/weir-mcp/weir/mcp"
)

// viaHeader is the header in which proxies name themselves, so that loops can be detected (RFC 9110
// §7.6.3).
const viaHeader = "Via"

// Loops finds requests that come back to the process that sent them. Without it, a request to an
// agent whose URL is the router's own would circulate until a resource is exhausted. Requests to an
// upstream have a mark, and the router refuses requests for that upstream with the mark. It is safe
// for concurrent use.
type Loops struct{ mark string }

// NewLoops returns Loops with a new mark.
func NewLoops() *Loops { return &Loops{mark: "1.1 weir-" + rand.Text()[:16] + "."} }

// of returns the mark of requests to an upstream.
func (l *Loops) of(upstream string) string { return l.mark + url.QueryEscape(upstream) }

// set adds the mark to the headers of a request, which may share a value with the original request.
func (l *Loops) set(h http.Header, mark []string) {
	if old := h[viaHeader]; old != nil {
		mark = append(slices.Clip(old), mark...)
	}
	h[viaHeader] = mark
}

// loopHeader in a response says that its request came back. The value is the mark of the answering
// process.
const loopHeader = "Weir-Loop"

// tell marks a response to a request that came back.
func (l *Loops) tell(h http.Header) { h.Set(loopHeader, l.mark) }

// told reports whether a response has the mark of a request that came back to this process.
func (l *Loops) told(h http.Header) bool { return h.Get(loopHeader) == l.mark }

// seen reports whether this process has sent a request to an upstream, or to any upstream if
// upstream is "".
func (l *Loops) seen(h http.Header, upstream string) bool {
	for _, v := range h[viaHeader] {
		for hop := range strings.SplitSeq(v, ",") {
			to, ours := strings.CutPrefix(strings.TrimSpace(hop), l.mark)
			if ours && (upstream == "" || to == url.QueryEscape(upstream)) {
				return true
			}
		}
	}
	return false
}

// maxLoopBody bounds the bytes read of a refused request to find its id.
const maxLoopBody = 64 << 10

// Pass refuses, before a handler that reaches all upstreams, such as a gateway, every request that this
// process has sent. ok is false for a refused request, which is answered.
func (l *Loops) Pass(w http.ResponseWriter, r *http.Request) (passed *http.Request, ok bool) {
	if l.seen(r.Header, "") {
		l.tell(w.Header())
		refuse(w, r, maxLoopBody, nil, errLoop("this server"))
		return nil, false
	}
	return r, true
}

// errLoop returns the error for an upstream that is this process.
func errLoop(who string) error {
	return notReached(mcp.KindUpstreamUnavailable, nil, who+" leads back to this weir: its URL must be the agent's own, and not a route here")
}
