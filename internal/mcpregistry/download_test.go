package mcpregistry_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/mcpregistry"
)

func TestDownload(t *testing.T) {
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/a.mcpb" {
			w.WriteHeader(http.StatusGone)
			return
		}
		fmt.Fprint(w, "the bundle")
	}))
	defer s.Close()
	right := sha256.Sum256([]byte("the bundle"))
	c := client(t, mcpregistry.Options{HTTP: s.Client()})
	for _, tc := range []struct{ path, sum, want string }{
		{"/a.mcpb", hex.EncodeToString(right[:]), ""},
		{"/a.mcpb", sum, "is not the published one"},
		{"/a.mcpb", "", "no SHA-256"},
		{"/b.mcpb", sum, "410 Gone"},
	} {
		var got bytes.Buffer
		err := c.Download(t.Context(), mcpregistry.Bundle{URL: s.URL + tc.path, SHA256: tc.sum}, &got)
		switch {
		case tc.want == "" && (err != nil || got.String() != "the bundle"):
			t.Errorf("%q, %v", &got, err)
		case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
			t.Errorf("%v, want %q", err, tc.want)
		}
	}
}
