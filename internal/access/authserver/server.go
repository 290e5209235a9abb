package authserver

import (
	"encoding/json"
	"errors"
	"net/http"
	"sync/atomic"
	"time"
)

// A Server is the authorization server. It is safe for concurrent use, and serves nothing before Apply.
type Server struct {
	o      Options
	policy atomic.Pointer[Policy]
	*shelf
	keys       *keyRing
	grants     *grants
	documents  *documents
	registered *registrations
	tries      *tries
}

// exchange is one request with the policy that it is judged by.
type exchange struct {
	*Server
	p *Policy
	w http.ResponseWriter
	r *http.Request
}

// refuse answers a program with an error of RFC 6749 §5.2.
func (x *exchange) refuse(err error) {
	var why *refusal
	if !errors.As(err, &why) {
		x.log.Error("the authorization server cannot answer", "path", x.r.URL.Path, "err", err)
		why = &refusal{status: http.StatusServiceUnavailable, code: "temporarily_unavailable", why: "try again"}
		x.w.Header().Set("Retry-After", "5")
	}
	if why.status == http.StatusUnauthorized && x.r.Header.Get("Authorization") != "" {
		x.w.Header().Set("WWW-Authenticate", `Basic realm="weir"`)
	}
	if x.o.Refused != nil {
		x.o.Refused(x.r, why.status, why)
	}
	x.answer(why.status, map[string]string{"error": why.code, "error_description": why.why})
}

// answer writes JSON that no cache keeps.
func (x *exchange) answer(status int, v any) {
	raw, err := json.Marshal(v)
	if err != nil {
		http.Error(x.w, "internal error", http.StatusInternalServerError) // cannot happen: texts and numbers
		return
	}
	h := x.w.Header()
	h.Set("Content-Type", "application/json")
	if h.Get("Cache-Control") == "" {
		h.Set("Cache-Control", "no-store")
	}
	x.w.WriteHeader(status)
	_, _ = x.w.Write(raw) // the client may have gone
}

// tooMany refuses a request that comes too soon.
func (x *exchange) tooMany(wait time.Duration, why string) error {
	x.w.Header().Set("Retry-After", seconds(wait))
	return &refusal{http.StatusTooManyRequests, "temporarily_unavailable", why}
}
