package authserver_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// The requests of VS Code are played by its public documents and issues (microsoft/vscode#278512): the program itself is
// not run.
const (
	vscodeRedirects = `["https://insiders.vscode.dev/redirect", "https://vscode.dev/redirect", "http://127.0.0.1/", "http://127.0.0.1:33418/"]`
	vscodeMetadata  = `"client_name": "Visual Studio Code", "client_uri": "https://code.visualstudio.com", "grant_types": ["authorization_code", "refresh_token", "urn:ietf:params:oauth:grant-type:device_code"],
		"response_types": ["code"], "redirect_uris": ` + vscodeRedirects + `, "scope": "mcp", "token_endpoint_auth_method": "none", "application_type": "native"`
)

// TestVSCode: it registers with four redirects, or its id is the URL of its metadata document. The browser comes back to
// its port, to another port if that is taken, or to a page of vscode.dev that opens the address in state.
func TestVSCode(t *testing.T) {
	p := newPublisher(t)
	w := newWorld(t, nil)
	w.o.Network = p.network
	w.s = w.node()
	const document = "https://vscode.dev/oauth/client-metadata.json"
	p.documents["/oauth/client-metadata.json"] = fmt.Sprintf(`{"client_id": %q, %s}`, document, vscodeMetadata)
	for _, client := range []string{w.registered("{" + vscodeMetadata + "}"), document} {
		for redirect, state := range map[string]string{
			"http://127.0.0.1:33418/":              "ey/lnTwSm9FUcQN/Qds+Cg==",
			"http://127.0.0.1:59656/":              "ey/lnTwSm9FUcQN/Qds+Cg==",
			"https://vscode.dev/redirect":          "vscode://dynamicauthprovider/weir.example/authorize?nonce%3D8c2f%26windowId%3D1",
			"https://insiders.vscode.dev/redirect": "vscode-insiders://dynamicauthprovider/weir.example/authorize?nonce%3D8c2f",
		} {
			v := newVerifier()
			back := w.browse(request(client, redirect, v, "state", state))
			if !strings.HasPrefix(back.String(), redirect+"?") || back.Query().Get("state") != state {
				t.Errorf("%s at %s comes back to %s", client, redirect, back)
			}
			a := w.exchange(client, redirect, v, back, "resource", base+"/mcp")
			if a.status != http.StatusOK || w.opens(a.text("access_token"), "/mcp") != nil {
				t.Errorf("%s at %s: %v", client, redirect, a)
			}
			if b := w.refresh(client, a.text("refresh_token"), "scope", "mcp"); b.status != http.StatusOK {
				t.Errorf("%s at %s, refreshed: %v", client, redirect, b)
			}
		}
		for _, redirect := range []string{"http://127.0.0.1:59656/other", "http://localhost:33418/", "https://vscode.dev/redirect/x", "https://vscode.dev.evil.example/redirect"} {
			if rec := w.ask("GET", base+authorizePath+"?"+request(client, redirect, newVerifier()).Encode(), nil); rec.Code != http.StatusBadRequest || rec.Header().Get("Location") != "" {
				t.Errorf("%s comes back to %s: %d", client, redirect, rec.Code)
			}
		}
	}
}
