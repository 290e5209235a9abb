package oauth

import (
	"errors"
	"net/http"
	"testing"
)

// TestTransportLeavesOthersAlone asks servers that do not want OAuth.
func TestTransportLeavesOthersAlone(t *testing.T) {
	w := newWorld(t)
	w.idp.Quiet, w.idp.Resource = true, map[string]any{"authorization_servers": []string{}}
	for range 3 {
		if got, err := w.get("me"); got != "401 no" || err != nil {
			t.Errorf("a server without metadata: %q, %v", got, err)
		}
	}
	if n := w.idp.Count("/.well-known/oauth-protected-resource/mcp"); n != 1 {
		t.Errorf("it was asked for metadata %d times", n)
	}
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, w.server.URL, nil)
	req.Header.Set("Authorization", "Bearer configured")
	w.idp.Quiet = false
	resp, err := w.client.Transport(w.server, "me", &http.Transport{DisableKeepAlives: true}).RoundTrip(req)
	if err != nil || resp.StatusCode != http.StatusUnauthorized {
		t.Fatalf("a configured header: %v", err)
	}
	resp.Body.Close()
}

// TestChangedURL keeps a token from an address that it was not meant for.
func TestChangedURL(t *testing.T) {
	w := newWorld(t)
	w.signIn("me")
	moved := *w.server
	moved.URL = "https://elsewhere.example/mcp"
	if _, err := w.client.Token(t.Context(), &moved, "me"); !errors.As(err, new(*SignInError)) {
		t.Errorf("err = %v", err)
	}
}
