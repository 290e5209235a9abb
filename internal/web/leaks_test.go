package web_test

import (
	"encoding/base64"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestSecretsInArguments: with guards.secrets.args, neither a credential of the configuration nor the
// token of the caller reaches a server, on every way to it.
func TestSecretsInArguments(t *testing.T) {
	const configured = "conf1gured-credential-of-crm"
	crm := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	defer crm.Close()
	p := startServing(t, `crm: {url: "`+crm.URL+`/mcp", headers: {X-Key: "`+configured+`"}}, `, "guards: {secrets: {args: deny}}")
	token := p.token("u1", "")
	for name, call := range echoes(t, p) {
		for _, secret := range []string{configured, base64.StdEncoding.EncodeToString([]byte("key: " + configured)), token, "AKIA2E0A8F3B244C9986"} {
			if body := call("it is " + secret); !strings.Contains(body, "guards.secrets.args") || strings.Contains(body, secret) {
				t.Errorf("%s with %.40s: %s", name, secret, body)
			}
		}
		if body := call("usual words"); !strings.Contains(body, "usual words") {
			t.Errorf("%s without a secret: %s", name, body)
		}
	}
}
