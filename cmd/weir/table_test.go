package main

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestTableErrorsTellNoSecrets: neither a password nor a token in a URL is in what
// is told of an answer that is none.
func TestTableErrorsTellNoSecrets(t *testing.T) {
	code := http.StatusOK
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }))
	defer server.Close()
	base := strings.Replace(server.URL, "://", "://ann:secret@", 1)
	a := &app{lookupEnv: func(string) (string, bool) { return "", false }, stdout: terminal{Writer: &bytes.Buffer{}}}
	for _, tt := range []struct {
		code       int
		what, want string
	}{
		{http.StatusUnauthorized, "art_1", "bearer token"},
		{http.StatusUnauthorized, base + "/s2sp/data/secret", "bearer token"},
		{http.StatusOK, "art_1", "something else than a weir gateway"},
	} {
		code = tt.code
		err := a.table(t.Context(), target{url: base + "/mcp"}, tableRequest{what: tt.what, format: formatCSV})
		if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%d for %s: %v", tt.code, tt.what, err)
		}
	}
}

// TestMessagesOfAGatewayTellNoPassword: the password of a --url is in no message
// about what is beside it.
func TestMessagesOfAGatewayTellNoPassword(t *testing.T) {
	for _, answer := range []struct {
		code       int
		body, want string
	}{
		{http.StatusUnauthorized, "", "bearer token"},
		{http.StatusNotFound, "", "404"},
		{http.StatusOK, "no JSON", "something else than a weir gateway"},
		{http.StatusOK, `{"status":"ok"}`, "bearer token"},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(answer.code)
			_, _ = w.Write([]byte(answer.body)) // the test sees what has come
		}))
		at := strings.Replace(server.URL, "://", "://ann:secret@", 1) + "/mcp"
		_, err := fetchHealth(t.Context(), at, "")
		server.Close()
		if err == nil || !strings.Contains(err.Error(), answer.want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%d %q: %v", answer.code, answer.body, err)
		}
		if _, err := fetchHealth(t.Context(), at, ""); err == nil || !strings.Contains(err.Error(), "cannot reach") || strings.Contains(err.Error(), "secret") {
			t.Errorf("nobody answers: %v", err)
		}
	}
}
