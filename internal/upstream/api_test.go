package upstream

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/config/mcpserver"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/json/strict"
	"github.com/weir-mcp/weir/mcp"
)

// TestAPI supervises an HTTP API as it does a server: its listing goes to the sink, its calls pass
// the transport of credentials and the time limit, and a request of another era has no other connection.
func TestAPI(t *testing.T) {
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Path == "/v1/slow" {
			<-r.Context().Done()
			return
		}
		_, _ = io.WriteString(w, `{"auth":"`+r.Header.Get("Authorization")+`","key":"`+r.Header.Get("X-Key")+`"}`)
	}))
	t.Cleanup(api.Close)
	doc := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"openapi":"3.1.0","info":{"title":"Shop","version":"1"},"paths":{"/a":{"get":{"operationId":"a"}},"/b":{"get":{"operationId":"b"}},"/slow":{"get":{"operationId":"slow"}}}}`)
	}))
	t.Cleanup(doc.Close)
	s := &sink{}
	m := New(Options{Sink: s, Transport: func(_ string, _ Owner, base http.RoundTripper) http.RoundTripper {
		return roundTrip(func(r *http.Request) (*http.Response, error) {
			r.Header.Set("Authorization", "Bearer t1")
			return base.RoundTrip(r)
		})
	}})
	t.Cleanup(func() { _ = m.Close(t.Context()) })
	server := &mcpserver.Server{
		Name: "shop", Namespace: "shop", URL: api.URL + "/v1", Type: mcpserver.TransportOpenAPI, Start: mcpserver.StartBoot, Timeout: 300 * time.Millisecond,
		Headers: map[string]strict.Secret{"X-Key": "k1"}, OpenAPI: mcpserver.OpenAPI{Document: doc.URL, Exclude: []string{"b"}},
	}
	lost := *server
	lost.Name, lost.Namespace, lost.OpenAPI.Document = "lost", "lost", doc.URL[:len(doc.URL)-1]+"0/none"
	m.Apply([]*mcpserver.Server{server, &lost})
	_ = m.Ready(t.Context())
	u, _ := m.Upstream("shop")
	if hello, err := u.Ready(t.Context()); err != nil || rawjson.Text(rawjson.Get(hello.ServerInfo, "title")) != "Shop" {
		t.Fatalf("%v, %s", err, hello.ServerInfo)
	}
	<-u.lists.settled
	var names []string
	for _, tool := range s.listings["shop"].Tools {
		names = append(names, rawjson.Text(rawjson.Get(tool, "name")))
	}
	if got := strings.Join(names, " "); got != "a slow" {
		t.Errorf("listed are %s", got)
	}
	if _, ok := u.Target(); ok {
		t.Error("bytes of clients would be forwarded to the API")
	}
	call := func(peer mcp.Peer, tool string) (string, error) {
		raw, err := peer.Call(t.Context(), "tools/call", json.RawMessage(`{"name":"`+tool+`","arguments":{}}`), nil)
		return string(rawjson.Get(raw, "structuredContent")), err
	}
	for _, modern := range []bool{false, true} {
		if got, err := call(u.Era(modern), "a"); err != nil || got != `{"auth":"Bearer t1","key":"k1"}` {
			t.Errorf("era %v: %v, %s", modern, err, got)
		}
	}
	if _, err := call(u, "b"); err == nil {
		t.Error("a tool that is not offered can be called")
	}
	if kind, _ := mcp.KindOf(func() error { _, err := call(u, "slow"); return err }()); kind != mcp.KindUpstreamTimeout {
		t.Errorf("a slow call is %v", kind)
	}
	u, _ = m.Upstream("lost")
	<-u.lists.settled
	if _, err := u.Ready(t.Context()); err == nil || !strings.Contains(err.Error(), `upstream "lost": the OpenAPI document http://`) || errors.Is(err, mcp.ErrNotSent) {
		t.Errorf("an API without its document: %v", err)
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
