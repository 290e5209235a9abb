package oauth

import (
	"net/url"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/signin/vault"
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
		path := DocumentsPath + tailOf(w.idp.URL)[1:] + ".json"
		if got := clientID(w); got != "https://weir.example"+path {
			t.Errorf("client %q", got)
		}
		w.server.NoDocument = true
		if got := clientID(w); strings.Contains(got, "weir.example") {
			t.Errorf("client %q although the document cannot be reached", got)
		}
		// The document of an issuer has its redirects alone.
		for at, tail := range map[string]string{path: tailOf(w.idp.URL), DocumentPath: ""} {
			want := `"redirect_uris":["https://weir.example/connect/callback` + tail + `","http://127.0.0.1/callback` + tail + `","http://127.0.0.1:33419/callback` + tail + `"]`
			if doc := string(Document("https://weir.example/", at)); !strings.Contains(doc, `"client_id":"https://weir.example`+at+`"`) || !strings.Contains(doc, want) {
				t.Errorf("document %s", doc)
			}
		}
		for _, at := range []string{DocumentsPath, DocumentsPath + "x.json", strings.ToUpper(path), strings.TrimSuffix(path, ".json"), path + ".json", DocumentsPath + "00.json"} {
			if doc := Document("https://weir.example", at); doc != nil {
				t.Errorf("%s: %s", at, doc)
			}
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
		if err := w.store.Swap(t.Context(), id, vault.Record{}, vault.Record{Issuer: w.idp.URL, Data: []byte(`{"client_id":"x","redirect_uris":["` + redirect + tailOf(w.idp.URL) + `"]}`)}); err != nil {
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
