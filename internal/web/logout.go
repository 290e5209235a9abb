package web

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/weir-mcp/weir/mcp"
)

const (
	// backchannelPath takes the logout tokens of the issuer of auth.login (OpenID Connect Back-Channel Logout).
	backchannelPath = "/oauth/backchannel-logout"
	maxLogout       = 64 << 10
	// logoutTime bounds a logout after its token was read: the issuer may not wait for it.
	logoutTime = 15 * time.Second
)

// backchannel ends what a session at the issuer has started at this gateway, at all nodes: the logins of browsers, and
// the tokens of the authorization server.
func (f *Server) backchannel(w http.ResponseWriter, r *http.Request) {
	refuse := func(status int, code, why string, err error) {
		f.gateway.Auditor.Refused(r, status, err)
		answerLogout(w, status, map[string]string{"error": code, "error_description": why})
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxLogout)
	if err := r.ParseForm(); err != nil {
		refuse(http.StatusBadRequest, "invalid_request", "the body must be a form with a logout_token", err)
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), logoutTime)
	defer cancel()
	out, err := f.callers.LoggedOut(ctx, r.PostForm.Get("logout_token"))
	var unavailable *mcp.Error
	switch {
	case errors.As(err, &unavailable) && unavailable.Kind == mcp.KindIdentityUnavailable:
		refuse(http.StatusServiceUnavailable, "temporarily_unavailable", "the keys of the issuer cannot be fetched; try again", err)
		return
	case err != nil:
		f.log.Info("a logout token is refused", "err", err)
		refuse(http.StatusBadRequest, "invalid_request", "the logout_token is not accepted", err)
		return
	}
	if again, err := f.signIns.Repeated(ctx, out.ID); err == nil && again {
		answerLogout(w, http.StatusOK, map[string]string{})
		return
	}
	if err = f.callers.server.LoggedOut(ctx, out.Principal, out.Session); err == nil {
		err = f.signIns.SignOut(ctx, out.Principal, out.Session, out.ID)
	}
	if err != nil {
		f.log.Error("a logout of the issuer does not count everywhere", "err", err)
		answerLogout(w, http.StatusServiceUnavailable, map[string]string{"error": "temporarily_unavailable", "error_description": "try again"})
		return
	}
	answerLogout(w, http.StatusOK, map[string]string{})
}

func answerLogout(w http.ResponseWriter, status int, v map[string]string) {
	raw, err := json.Marshal(v)
	if err != nil {
		http.Error(w, "internal error", http.StatusInternalServerError) // cannot happen: texts
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(raw) // the issuer may have gone
}
