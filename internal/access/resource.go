package access

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/weir-mcp/weir/internal/access/dpop"
)

// WhoamiPath is the path of a caller's own identity. A token for any path of the gateway opens it,
// because it reveals nothing of the gateway.
const WhoamiPath = "/whoami"

// MetadataPath is the path of the metadata of RFC 9728. The path of the resource follows it.
const MetadataPath = "/.well-known/oauth-protected-resource"

// resourcePath returns the path of the protected resource that a path belongs to. Paths without a
// resource of their own belong to the gateway as a whole, "".
func resourcePath(path string) string {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	switch {
	case parts[0] == "mcp" && len(parts) <= 2:
		return "/" + strings.Join(parts, "/")
	case (parts[0] == "mcp" || parts[0] == "mcps") && len(parts) >= 3 && parts[2] == "mcp":
		return "/" + strings.Join(parts[:3], "/")
	}
	return ""
}

// Challenge returns the WWW-Authenticate header of a request; it is a guard.Options.Challenge.
func (a *Authenticator) Challenge(r *http.Request) (metadata string, scopes []string) {
	s := a.state.Load()
	if len(s.issuers) == 0 && s.own == nil {
		return "", nil
	}
	return s.policy.PublicURL + MetadataPath + resourcePath(r.URL.Path), s.scopes
}

// ServeMetadata answers MetadataPath and the paths below it. It needs no token. An unknown server
// or profile also has metadata: the answer does not show which ones exist.
func (a *Authenticator) ServeMetadata(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Access-Control-Allow-Origin", "*")
	switch r.Method {
	case http.MethodGet, http.MethodHead:
	case http.MethodOptions:
		h.Set("Access-Control-Allow-Methods", "GET")
		h.Set("Access-Control-Allow-Headers", "*")
		w.WriteHeader(http.StatusNoContent)
		return
	default:
		h.Set("Allow", "GET, HEAD, OPTIONS")
		http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
		return
	}
	s := a.state.Load()
	path, ok := s.metadataOf(strings.TrimPrefix(r.URL.Path, MetadataPath))
	if !ok || len(s.issuers) == 0 && s.own == nil {
		http.NotFound(w, r)
		return
	}
	document := struct {
		Resource string   `json:"resource"`
		Servers  []string `json:"authorization_servers"`
		Scopes   []string `json:"scopes_supported,omitempty"`
		Methods  []string `json:"bearer_methods_supported"`
		Proofs   []string `json:"dpop_signing_alg_values_supported,omitempty"`
		Bound    bool     `json:"dpop_bound_access_tokens_required,omitempty"`
		Name     string   `json:"resource_name"`
	}{Resource: s.policy.PublicURL + path, Methods: []string{"header"}, Name: "weir"}
	if s.own != nil { // clients that can use it need no other one
		document.Servers = []string{s.own.Issuer.Issuer}
	} else {
		for _, i := range s.policy.Issuers {
			document.Servers = append(document.Servers, i.Issuer)
		}
	}
	if s.proofs != nil {
		document.Proofs, document.Bound = dpop.Algorithms(), s.policy.BoundTokens
	}
	document.Scopes = slices.DeleteFunc(slices.Clone(s.scopes), func(scope string) bool { return scope == "offline_access" })
	body, err := json.Marshal(document)
	if err != nil {
		http.Error(w, "internal error", http.StatusInternalServerError) // cannot happen: only texts
		return
	}
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "public, max-age=300")
	_, _ = w.Write(body)
}

// metadataOf returns the path of the resource that a metadata document is about. A public URL with
// a path of its own may stand before it, because RFC 9728 puts it there.
func (s *state) metadataOf(path string) (resource string, ok bool) {
	if u, err := url.Parse(s.policy.PublicURL); err == nil && u.Path != "" {
		if rest, found := strings.CutPrefix(path, u.Path); found && (rest == "" || rest[0] == '/') {
			path = rest
		}
	}
	if path == "" || path == "/" {
		return "", true
	}
	resource = resourcePath(path)
	return resource, resource == path
}
