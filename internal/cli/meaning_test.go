package cli

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/gateway"
)

// TestMeaning: an endpoint for embeddings finds what no word of the query names,
// and whatever becomes of it, a query is answered.
func TestMeaning(t *testing.T) {
	t.Parallel()
	var asked, queries atomic.Int32
	var broken atomic.Bool
	endpoint := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body struct {
			Model string
			Input []string
		}
		if json.NewDecoder(r.Body).Decode(&body) != nil || r.URL.Path != "/v1/embeddings" || body.Model != "small" || r.Header.Get("Authorization") != "Bearer sesame-open" {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		if broken.Load() {
			http.Error(w, "no such key: "+r.Header.Get("Authorization"), http.StatusUnauthorized)
			return
		}
		asked.Add(1)
		type vector struct {
			Index     int       `json:"index"`
			Embedding []float32 `json:"embedding"`
		}
		var out struct {
			Data []vector `json:"data"`
		}
		for i, text := range body.Input {
			v := vector{i, []float32{0, 1}}
			if strings.Contains(text, "echo") || text == "parrot" {
				v.Embedding = []float32{1, 0}
			}
			if text == "parrot" {
				queries.Add(1)
			}
			out.Data = append(out.Data, v)
		}
		_ = json.NewEncoder(w).Encode(out)
	}))
	defer endpoint.Close()
	path := writeConfig(t, "weir.yaml", "search: {embedding: {url: "+endpoint.URL+"/v1, model: small, key: \"${env:EMBEDDING_KEY}\"}}\nlisten: 127.0.0.1:0\n"+oneFake)
	s := startWith(t, []string{"EMBEDDING_KEY=sesame-open"}, path, "serve", "--config", path)
	s.await("the entries are embedded", func(gateway.Health) bool { return strings.Contains(s.stderr.String(), "ranked by meaning") })
	echo := s.tool("fake:echo")
	browse := func(query string) string {
		t.Helper()
		code, body, err := post(t.Context(), httpClient(t), s.url, "tool_browse", modernCall(1, "tool_browse", map[string]any{"query": query, "top_k": 1}))
		if err != nil || code != http.StatusOK {
			t.Fatal(code, body, err)
		}
		return body
	}
	for range 2 {
		if got := browse("parrot"); !strings.Contains(got, echo) {
			t.Errorf("by meaning: %s", got)
		}
	}
	if n := queries.Load(); n != 1 {
		t.Errorf("one query asked the endpoint %d times", n)
	}
	broken.Store(true)
	if got := browse("echo text"); !strings.Contains(got, echo) {
		t.Errorf("by words: %s", got)
	}
	began := time.Now()
	if got := browse("parakeet"); strings.Contains(got, echo) || time.Since(began) > 15*time.Second {
		t.Errorf("with the endpoint gone: %s after %s", got, time.Since(began))
	}
	if log := s.stderr.String(); strings.Contains(log, "sesame-open") {
		t.Error("the key is in the log")
	}

	// A shell command that starts the servers itself has no time for it.
	before := asked.Load()
	broken.Store(false)
	weir(t, "EMBEDDING_KEY=sesame-open", "search", "--config", s.config, "parrot").want(t, exitOK, "")
	if asked.Load() != before {
		t.Error("a shell command asked the endpoint")
	}
}
