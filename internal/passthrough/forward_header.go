package passthrough

import (
	"net/http"
	"strings"

	"github.com/weir-mcp/weir/internal/protocol/invocation"
	"github.com/weir-mcp/weir/mcp/streamable"
)

// requestHeader returns the headers of an agent's request for its upstream. It omits headers that
// are for weir only: the agent's credentials, the browser's headers (weir has checked them), and
// the headers of the connection. From a legacy message it also omits the headers that repeat the
// body of a modern one, because weir has not checked them.
func requestHeader(r *http.Request, modern bool, configured http.Header) http.Header {
	h := make(http.Header, len(r.Header)+len(configured))
	for k, v := range r.Header {
		switch k {
		case "Authorization", "Cookie", invocation.Header,
			"Origin", "Referer", "Host", "Forwarded",
			"Accept-Encoding", // weir adds comments to streams, so they must not be compressed
			"Content-Length", "Expect",
			"Connection", "Keep-Alive", "Te", "Trailer", "Transfer-Encoding", "Upgrade":
			continue
		case streamable.HeaderMethod, streamable.HeaderName:
			if !modern {
				continue
			}
		}
		if isForged(k) || hasPrefix(k, "Proxy-") || hasPrefix(k, "Sec-") || hasPrefix(k, "X-Forwarded-") || hasPrefix(k, "Access-Control-") ||
			!modern && hasPrefix(k, streamable.HeaderParamPrefix) {
			continue
		}
		h[k] = v
	}
	dropNamed(h, r.Header["Connection"])
	setConfigured(h, configured)
	if _, ok := h["User-Agent"]; !ok {
		h["User-Agent"] = nil // otherwise net/http adds its own
	}
	return h
}

// isForged reports whether a header names the client to a server behind a proxy, or overrides the
// method or path. Servers trust their proxy, so an agent's own claims must not reach them as the
// proxy's.
func isForged(name string) bool {
	switch name {
	case "X-Real-Ip", "X-Client-Ip", "X-Cluster-Client-Ip", "X-Original-Forwarded-For", "True-Client-Ip", "Cf-Connecting-Ip", "Fastly-Client-Ip",
		"X-Http-Method-Override", "X-Http-Method", "X-Method-Override", "X-Original-Method", "X-Original-Url", "X-Original-Uri", "X-Rewrite-Url":
		return true
	}
	return false
}

func hasPrefix(s, prefix string) bool {
	return len(s) >= len(prefix) && s[0] == prefix[0] && s[:len(prefix)] == prefix
}

// setConfigured sets the configured headers, except those that the protocol defines.
func setConfigured(h, configured http.Header) {
	for k, v := range configured {
		switch k {
		case "Content-Type", "Content-Length", "Accept", "Accept-Encoding", "Connection", "Transfer-Encoding", "Host", streamable.HeaderLastEventID,
			streamable.HeaderSession, streamable.HeaderVersion, streamable.HeaderMethod, streamable.HeaderName:
			continue
		}
		h[k] = v
	}
}

// dropNamed deletes the headers that a Connection header names: they belong to the connection (RFC
// 9110 §7.6.1).
func dropNamed(h http.Header, connection []string) {
	for _, v := range connection {
		for name := range strings.SplitSeq(v, ",") {
			if name = http.CanonicalHeaderKey(strings.TrimSpace(name)); name != "" && !strings.HasPrefix(name, "Mcp-") {
				delete(h, name)
			}
		}
	}
}

// copyResponseHeader copies the headers of an upstream's response to the agent's. It omits the
// headers of the connection, the upstream's cookies, its instructions to browsers (weir decides
// which pages may call), and the headers that nodes of a cluster add to a request.
func copyResponseHeader(dst, src http.Header) {
	named := src["Connection"]
	for k, v := range src {
		switch k {
		case "Connection", "Keep-Alive", "Te", "Trailer", "Transfer-Encoding", "Upgrade", "Alt-Svc",
			"Set-Cookie", "Strict-Transport-Security", "Www-Authenticate", "Content-Security-Policy",
			"Weir-Owner", "Weir-Unreached":
			continue
		case "Vary":
			dst[k] = append(dst[k], v...)
			continue
		}
		if hasPrefix(k, "Proxy-") || hasPrefix(k, "Access-Control-") {
			continue
		}
		dst[k] = v
	}
	if len(named) > 0 {
		dropNamed(dst, named)
	}
}

// mediaType returns the media type of a response without its parameters.
func mediaType(h http.Header) string {
	t := h.Get("Content-Type")
	if t == streamable.ContentJSON || t == streamable.ContentSSE {
		return t
	}
	t, _, _ = strings.Cut(t, ";")
	return strings.ToLower(strings.TrimSpace(t))
}
