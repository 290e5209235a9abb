package web_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
)

// TestCards: strangers read the card where the configuration says so, and with it reach the endpoint.
// It names no server.
func TestCards(t *testing.T) {
	paths := []string{"/mcp/server-card", "/.well-known/mcp/server-card.json", "/.well-known/mcp/catalog.json"}
	off := startProtected(t, "")
	for _, path := range paths {
		if resp, _ := off.do("GET", path, "", ""); resp.StatusCode == 200 {
			t.Errorf("%s is there without cards: true", path)
		}
	}
	on := startProtected(t, "cards: true")
	for _, path := range paths {
		resp, body := on.do("GET", path, "", "", "Origin", "https://inspector.example")
		if resp.StatusCode != 200 || resp.Header.Get("Access-Control-Allow-Origin") != "*" || strings.Contains(string(body), "echo") {
			t.Errorf("%s: %d %s", path, resp.StatusCode, body)
		}
		r, err := http.NewRequest("GET", on.base+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Host = "rebound.example"
		if resp, err = http.DefaultClient.Do(r); err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != 403 {
			t.Errorf("%s: %d for a Host of another", path, resp.StatusCode)
		}
	}
	var card struct{ Remotes []struct{ URL string } }
	if _, body := on.do("GET", paths[0], "", ""); json.Unmarshal([]byte(body), &card) != nil || len(card.Remotes) != 1 || !strings.HasPrefix(card.Remotes[0].URL, "http") || !strings.HasSuffix(card.Remotes[0].URL, "/mcp") {
		t.Errorf("%s: %s", paths[0], body)
	}
}
