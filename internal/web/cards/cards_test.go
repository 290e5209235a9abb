package cards_test

import (
	"encoding/json"
	"net/http/httptest"
	"regexp"
	"testing"

	"github.com/weir-mcp/weir/internal/web/cards"
	"github.com/weir-mcp/weir/mcp"
)

func TestCard(t *testing.T) {
	for _, test := range []struct{ base, name, id, endpoint string }{
		{"https://tools.example.com", "com.example.tools/weir", "urn:air:tools.example.com:weir", "https://tools.example.com/mcp"},
		{"https://Example.com/base/", "com.example/weir", "urn:air:example.com:weir", "https://Example.com/base/mcp"},
		{"http://127.0.0.1:8088", "localhost/weir", "urn:air:localhost:weir", "http://127.0.0.1:8088/mcp"},
		{"http://[fd00::1]:8088", "fd00--1/weir", "urn:air:fd00--1:weir", "http://[fd00::1]:8088/mcp"},
		{"", "localhost/weir", "urn:air:localhost:weir", "/mcp"},
	} {
		h := cards.Handler(test.base, "1.2.3", false)
		var card struct {
			Schema, Name, Version, Title, Description string
			Remotes                                   []struct {
				Type, URL string
				Headers   []any
				Versions  []string `json:"supportedProtocolVersions"`
			}
		}
		var catalog struct {
			SpecVersion string
			Entries     []struct{ Identifier, DisplayName, Type, URL string }
		}
		for path, into := range map[string]any{cards.CardPath: &card, cards.CatalogPath: &catalog} {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
			if err := json.Unmarshal(w.Body.Bytes(), into); w.Code != 200 || err != nil {
				t.Fatalf("%s: %d %v", path, w.Code, err)
			}
		}
		if card.Name != test.name || !regexp.MustCompile(`^[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+$`).MatchString(card.Name) {
			t.Errorf("%q: name %q, want %q", test.base, card.Name, test.name)
		}
		if n := len(card.Description); n == 0 || n > 100 || card.Version != "1.2.3" || card.Title == "" {
			t.Errorf("%q: %+v", test.base, card)
		}
		if r := card.Remotes; len(r) != 1 || r[0].URL != test.endpoint || r[0].Type != "streamable-http" || len(r[0].Versions) != len(mcp.Versions) || r[0].Headers != nil {
			t.Errorf("%q: remotes %+v", test.base, r)
		}
		e := catalog.Entries
		if len(e) != 1 || e[0].Identifier != test.id || e[0].URL != test.endpoint+"/server-card" || e[0].Type != "application/mcp-server-card+json" || catalog.SpecVersion == "" {
			t.Errorf("%q: catalog %+v", test.base, catalog)
		}
	}
}

// Every page may read the documents, a client keeps them, and nothing else is there.
func TestServed(t *testing.T) {
	h := cards.Handler("https://example.com", "1", true)
	ask := func(method, path, tag string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(method, path, nil)
		r.Header.Set("Origin", "https://elsewhere.example")
		if tag != "" {
			r.Header.Set("If-None-Match", tag)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w
	}
	for path, mediaType := range map[string]string{cards.CardPath: "application/mcp-server-card+json", cards.WellKnownPath: "application/mcp-server-card+json", cards.CatalogPath: "application/json"} {
		got := ask("GET", path, "")
		if got.Code != 200 || got.Header().Get("Content-Type") != mediaType || got.Header().Get("Access-Control-Allow-Origin") != "*" || got.Header().Get("Cache-Control") != "public, max-age=3600" {
			t.Errorf("%s: %d %v", path, got.Code, got.Header())
		}
		if again := ask("GET", path, got.Header().Get("ETag")); again.Code != 304 || again.Body.Len() != 0 {
			t.Errorf("%s: %d to a client that has it", path, again.Code)
		}
		if head := ask("HEAD", path, ""); head.Code != 200 || head.Body.Len() != 0 {
			t.Errorf("HEAD %s: %d with %d bytes", path, head.Code, head.Body.Len())
		}
		if before := ask("OPTIONS", path, ""); before.Code != 204 || before.Header().Get("Access-Control-Allow-Methods") != "GET" {
			t.Errorf("OPTIONS %s: %d", path, before.Code)
		}
		if post := ask("POST", path, ""); post.Code != 405 || post.Header().Get("Allow") == "" {
			t.Errorf("POST %s: %d", path, post.Code)
		}
	}
	var card struct {
		Remotes []struct {
			Headers []struct {
				Name       string
				IsRequired bool
				IsSecret   bool
			}
		}
	}
	if err := json.Unmarshal(ask("GET", cards.CardPath, "").Body.Bytes(), &card); err != nil || len(card.Remotes) != 1 {
		t.Fatal(err)
	}
	if h := card.Remotes[0].Headers; len(h) != 1 || h[0].Name != "Authorization" || !h[0].IsRequired || !h[0].IsSecret {
		t.Errorf("headers %+v, want the token that an operator gives", h)
	}
}
