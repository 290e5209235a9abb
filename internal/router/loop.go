package router

import (
	"crypto/rand"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/weir-mcp/weir/mcp"
)

// viaHeader is where those that hand a request on name themselves, so that a
// loop can be seen (RFC 9110 §7.6.3).
const viaHeader = "Via"

// Loops finds requests that come back to the process that sent them: an agent
// whose URL is the router's own would have each of its requests go round until
// something breaks. What is sent to an upstream bears a mark, and what arrives
// for that upstream with this mark is refused. It is safe for concurrent use.
type Loops struct{ mark string }

// NewLoops returns a mark of its own.
func NewLoops() *Loops { return &Loops{mark: "1.1 weir-" + rand.Text()[:16] + "."} }

// of is the mark of what is sent to an upstream.
func (l *Loops) of(upstream string) string { return l.mark + url.QueryEscape(upstream) }

// set puts the mark into the headers of a request, which may share a value with
// the request that it was made of.
func (l *Loops) set(h http.Header, mark []string) {
	if old := h[viaHeader]; old != nil {
		mark = append(slices.Clip(old), mark...)
	}
	h[viaHeader] = mark
}

// loopHeader says in the response to a request that it came back: its value is the
// mark of the process that answers.
const loopHeader = "Weir-Loop"

// tell marks a response as the one to a request that came back.
func (l *Loops) tell(h http.Header) { h.Set(loopHeader, l.mark) }

// told reports whether a response says that the request came back to this process.
func (l *Loops) told(h http.Header) bool { return h.Get(loopHeader) == l.mark }

// seen reports whether a request has been sent to an upstream from here, to any
// where upstream is "".
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

// maxLoopBody bounds what is read of a request that is refused, for its id.
const maxLoopBody = 64 << 10

// Refuse serves what reaches all upstreams, such as a gateway: whatever was sent
// from here is refused.
func (l *Loops) Refuse(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if l.seen(r.Header, "") {
			l.tell(w.Header())
			refuse(w, r, maxLoopBody, nil, errLoop("this server"))
			return
		}
		next.ServeHTTP(w, r)
	})
}

// errLoop is the error for an upstream that is this process.
func errLoop(who string) error {
	return notReached(mcp.KindUpstreamUnavailable, nil, who+" leads back to this weir: its URL must be the agent's own, and not a route here")
}
