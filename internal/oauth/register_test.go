package oauth

import (
	"net/url"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/vault"
)

// TestClients chooses who weir is: configured, by its document, registered, or an error.
func TestClients(t *testing.T) {
	clientID := func(w *world) string {
		t.Helper()
		at, _, err := w.client.Begin(t.Context(), w.server, "me", redirect)
		if err != nil {
			return err.Error()
		}
		u, _ := url.Parse(at)
		return u.Query().Get("client_id")
	}
	byDocument := map[string]any{"client_id_metadata_document_supported": true}
	t.Run("configured", func(t *testing.T) {
		w := newWorld(t)
		w.idp.Metadata, w.idp.Secret = byDocument, "hunter2"
		w.server.ClientID, w.server.ClientSecret, w.server.Issuer = "configured", "hunter2", w.idp.URL
		if got := clientID(w); got != "configured" {
			t.Errorf("client %q", got)
		}
		w.signIn("me")
		for _, methods := range [][]string{{"client_secret_post"}, {"client_secret_basic"}} {
			w.idp.Metadata = map[string]any{"token_endpoint_auth_methods_supported": methods}
			w.signIn("me")
		}
	})
	t.Run("document", func(t *testing.T) {
		w := newWorld(t)
		w.idp.Metadata = byDocument
		w.client = New(Options{Store: w.store, PublicURL: func() string { return "https://weir.example/" }})
		if got := clientID(w); got != "https://weir.example/oauth/client.json" {
			t.Errorf("client %q", got)
		}
		w.server.NoDocument = true
		if got := clientID(w); strings.Contains(got, "weir.example") {
			t.Errorf("client %q although the document cannot be reached", got)
		}
		if doc := string(Document("https://weir.example/")); !strings.Contains(doc, `"client_id":"https://weir.example/oauth/client.json"`) || !strings.Contains(doc, "https://weir.example/connect/callback") {
			t.Errorf("document %s", doc)
		}
	})
	t.Run("none", func(t *testing.T) {
		w := newWorld(t)
		w.idp.Metadata = map[string]any{"registration_endpoint": nil}
		if got := clientID(w); !strings.Contains(got, "takes no registrations") || !strings.Contains(got, "mcpServers.notes.oauth") {
			t.Errorf("err = %s", got)
		}
	})
	t.Run("unknown to its issuer", func(t *testing.T) {
		w := newWorld(t)
		id := vault.ID{Kind: vault.Client, Issuer: w.idp.URL}
		if err := w.store.Swap(t.Context(), id, vault.Record{}, vault.Record{Issuer: w.idp.URL, Data: []byte(`{"client_id":"x","redirect_uris":["` + redirect + `"]}`)}); err != nil {
			t.Fatal(err)
		}
		w.client.forgetRegistration(t.Context(), w.idp.URL, "another")
		if got := clientID(w); got != "x" {
			t.Errorf("client %q, want the kept one", got)
		}
		w.client.forgetRegistration(t.Context(), w.idp.URL, "x")
		if got := clientID(w); got == "x" {
			t.Error("the registration is kept although its issuer does not know it")
		}
	})
}
