package link

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
)

// TestHeadersOfAConnection: what belongs to a client's connection does not reach another node, and what
// an answer varies with includes what this node says.
func TestHeadersOfAConnection(t *testing.T) {
	h := http.Header{
		"Connection": {"X-Secret, mcp-session-id", "keep-alive"}, "X-Secret": {"1"}, "Keep-Alive": {"9"}, "Te": {"trailers"},
		"Mcp-Session-Id": {"s"}, "Content-Type": {"application/json"},
	}
	DropHop(h)
	if len(h) != 2 || h.Get("Mcp-Session-Id") != "s" || h.Get("Content-Type") == "" {
		t.Errorf("left: %v", h)
	}
	w := httptest.NewRecorder()
	w.Header().Set("Vary", "Origin")
	resp := &http.Response{StatusCode: 200, Header: http.Header{"Vary": {"Accept"}, "Connection": {"close"}}, Body: io.NopCloser(strings.NewReader("x"))}
	if err := Copy(w, resp); err != nil || !slices.Equal(w.Header()["Vary"], []string{"Origin", "Accept"}) || w.Header().Get("Connection") != "" {
		t.Errorf("%v, %v", w.Header(), err)
	}
}
