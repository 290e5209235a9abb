package embedding

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/search"
	"github.com/weir-mcp/weir/internal/testkit/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

// endpoint serves f at /v1/embeddings.
func endpoint(t *testing.T, f http.HandlerFunc) *httptest.Server {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/embeddings", f)
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s
}

func TestEmbed(t *testing.T) {
	s := endpoint(t, func(w http.ResponseWriter, r *http.Request) {
		var body map[string]any
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			t.Error(err)
		}
		want := map[string]any{"model": "small", "input": []any{"a", "b"}, "encoding_format": "float", "dimensions": 2.}
		if !reflect.DeepEqual(body, want) || r.Header.Get("Authorization") != "Bearer secret" {
			t.Errorf("asked %v with %v", body, r.Header)
		}
		_, _ = fmt.Fprint(w, `{"data":[{"index":1,"embedding":[0,1]},{"index":0,"embedding":[1,0.5]}]}`)
	})
	for _, url := range []string{s.URL + "/v1", s.URL + "/v1/", s.URL + "/v1/embeddings"} {
		c, err := New(Config{URL: url, Model: "small", Key: "secret", Dimensions: 2, HTTP: s.Client()})
		if err != nil {
			t.Fatal(err)
		}
		got, err := c.Embed(t.Context(), []string{"a", "b"})
		if want := [][]float32{{1, .5}, {0, 1}}; err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v, %v; want %v", url, got, err, want)
		}
		if got, err := c.Embed(t.Context(), nil); got != nil || err != nil {
			t.Errorf("no texts: %v, %v", got, err)
		}
	}
}

func TestEmbedErrors(t *testing.T) {
	tests := []struct {
		name   string
		status int
		body   string
		want   string
	}{
		{"refused", 401, "bad\nkey secret", "401 Unauthorized: bad key [key]"},
		{"long", 500, strings.Repeat("x", 1000), strings.Repeat("x", maxMessage) + "…"},
		{"error in an answer", 200, `{"error":{"message":"no"}}`, `an error: {"message":"no"}`},
		{"no JSON", 200, "<html>", "answer of the embedding endpoint"},
		{"too few", 200, `{"data":[{"index":0,"embedding":[1]}]}`, "1 vectors for 2 texts"},
		{"twice", 200, `{"data":[{"index":0,"embedding":[1]},{"index":0,"embedding":[1]}]}`, "wrong vector for text 0"},
		{"outside", 200, `{"data":[{"index":2,"embedding":[1]}]}`, "wrong vector for text 2"},
		{"empty", 200, `{"data":[{"index":0,"embedding":[]}]}`, "wrong vector for text 0"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := endpoint(t, func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(test.status)
				_, _ = fmt.Fprint(w, test.body)
			})
			c, err := New(Config{URL: s.URL + "/v1", Model: "m", Key: "secret", HTTP: s.Client()})
			if err != nil {
				t.Fatal(err)
			}
			_, err = c.Embed(t.Context(), []string{"a", "b"})
			if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "secret") {
				t.Errorf("error = %v, want one with %q", err, test.want)
			}
		})
	}
}

func TestTimeout(t *testing.T) {
	s := endpoint(t, func(_ http.ResponseWriter, r *http.Request) {
		// The server sees that its client has left only once it has read the body.
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	})
	c, err := New(Config{URL: s.URL + "/v1", Model: "m", Timeout: 20 * time.Millisecond, HTTP: s.Client()})
	if err != nil {
		t.Fatal(err)
	}
	ix := search.New(search.Options{Embedder: c}).With("up", []search.Doc{{ID: "a", Name: "read"}})
	same, err := ix.Embed(t.Context())
	if !errors.Is(err, search.ErrEmbedding) || !strings.Contains(err.Error(), `"up"`) || same != ix {
		t.Errorf("%v", err)
	}
	if hits, err := same.SearchContext(t.Context(), "read", nil, 1); len(hits) != 1 || err != nil {
		t.Errorf("%v, %v", hits, err)
	}
}

func TestNewErrors(t *testing.T) {
	for _, c := range []Config{{Model: "m"}, {URL: "host/v1", Model: "m"}, {URL: "ftp://host", Model: "m"}, {URL: "http://host/v1"}, {URL: "http://[", Model: "m"}} {
		if _, err := New(c); err == nil {
			t.Errorf("%+v is accepted", c)
		}
	}
}

func Example() {
	endpoint := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprint(w, `{"data":[{"index":0,"embedding":[0.6,0.8]}]}`)
	}))
	defer endpoint.Close()
	client, err := New(Config{URL: endpoint.URL + "/v1", Model: "some-model", HTTP: endpoint.Client()})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(client.Embed(context.Background(), []string{"a text"}))
	// Output: [[0.6 0.8]] <nil>
}
