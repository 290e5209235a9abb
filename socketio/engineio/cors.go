package engineio

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// CORS names the web pages that may use the server from another origin.
type CORS struct {
	// Origins are exact origins such as "https://app.example", or "*" for any origin.
	Origins []string
	// Credentials allows cookies and authorization. The response then repeats the request's origin,
	// because browsers refuse "*" with credentials.
	Credentials bool
}

// allows reports whether an origin may use the server. A nil CORS allows none.
func (c *CORS) allows(origin string) bool {
	return c != nil && (slices.Contains(c.Origins, "*") || slices.Contains(c.Origins, origin))
}

// answer adds the CORS headers for a request's origin.
func (c *CORS) answer(w http.ResponseWriter, r *http.Request) {
	if c == nil {
		return
	}
	header := w.Header()
	if slices.Contains(c.Origins, "*") && !c.Credentials { // one answer for all origins, so that caches cannot mix them up
		header.Set("Access-Control-Allow-Origin", "*")
		return
	}
	origin := r.Header.Get("Origin")
	if origin == "" || !c.allows(origin) {
		return
	}
	header.Set("Access-Control-Allow-Origin", origin)
	header.Add("Vary", "Origin")
	if c.Credentials {
		header.Set("Access-Control-Allow-Credentials", "true")
	}
}

// preflight answers OPTIONS.
func (c *CORS) preflight(w http.ResponseWriter, r *http.Request) {
	if c.allows(r.Header.Get("Origin")) {
		header := w.Header()
		header.Set("Access-Control-Allow-Methods", "GET, POST")
		if asked := r.Header.Get("Access-Control-Request-Headers"); asked != "" {
			header.Set("Access-Control-Allow-Headers", asked)
			header.Add("Vary", "Access-Control-Request-Headers")
		}
		header.Set("Access-Control-Max-Age", "600")
	}
	w.WriteHeader(http.StatusNoContent)
}

// originAllowed checks the origin of a request if Config has no CheckOrigin.
func originAllowed(c *CORS, r *http.Request) bool {
	origin := r.Header.Get("Origin")
	if origin == "" || c.allows(origin) {
		return true
	}
	u, err := url.Parse(origin)
	return err == nil && u.Host != "" && strings.EqualFold(u.Host, r.Host)
}
