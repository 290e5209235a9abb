package clients

import (
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/json/splice"
)

// TestOAuthEntries reads what clients write about a login, and has weir read what it becomes.
func TestOAuthEntries(t *testing.T) {
	for _, tt := range []struct{ entry, yaml, stay, note string }{
		{`"url": "https://a.example/mcp", "oauth": {}`, "", "", ""},
		{`"url": "https://a.example/mcp", "oauth": true`, "", "", "weir login a"},
		{`"url": "https://a.example/mcp", "auth": "oauth"`, "", "", "weir login a"},
		{`"url": "https://a.example/mcp", "auth": "google_credentials"`, "", "google_credentials", ""},
		{`"url": "https://a.example/mcp", "authProviderType": "dynamic_discovery"`, "", "", "weir login a"},
		{`"url": "https://a.example/mcp", "authProviderType": "service_account_impersonation"`, "", "service_account", ""},
		{`"url": "https://a.example/mcp", "auth": {"CLIENT_ID": "abc", "scopes": ["read", "write"]}`, "client_id: abc\n      scopes:", "", "http://127.0.0.1:33419/callback for the client abc"},
		{`"url": "https://a.example/mcp", "oauth": {"enabled": true, "clientId": "a$b", "scope": "read write"}`, "client_id: \"a$b\"", "", "weir login a"},
		{`"url": "https://a.example/mcp", "oauth_client_id": "abc"`, "client_id: abc", "", "abc"},
		{`"url": "https://a.example/mcp", "auth": {"CLIENT_ID": "abc", "CLIENT_SECRET": "s3cret"}`, "", "issuer", ""},
		{`"url": "https://a.example/mcp", "oauth": {"clientId": "abc"}, "headers": {"Authorization": "Bearer ${env:T}"}`, "", "", ""},
		{`"command": "npx", "oauth": {"clientId": "abc"}`, "", "the login is Cursor's own", ""},
		{`"url": "https://a.example/mcp", "oauth": {"enabled": false}`, "", "", ""},
	} {
		c, _ := ByID("cursor")
		servers, _, err := Servers(c, []byte(`{"mcpServers": {"a": {`+tt.entry+`}}}`), machine)
		if err != nil {
			t.Fatal(err)
		}
		p := Make(servers, Select{}, machine)
		if tt.stay != "" {
			if len(p.Stay) != 1 || !strings.Contains(p.Stay[0].Stay, tt.stay) {
				t.Errorf("%s: stays: %+v, want %q", tt.entry, p.Stay, tt.stay)
			}
			continue
		}
		if len(p.Servers) != 1 {
			t.Errorf("%s: %+v", tt.entry, p)
			continue
		}
		var notes []string
		for _, n := range p.Notes {
			notes = append(notes, n.Text)
		}
		if got := strings.Join(notes, "\n"); tt.note == "" && got != "" || !strings.Contains(got, tt.note) {
			t.Errorf("%s: notes %q, want %q", tt.entry, got, tt.note)
		}
		moved := p.ToWeir(Secret.Inline)
		doc, err := splice.Set(nil, splice.YAML, splice.Path{"mcpServers"}, moved)
		if err != nil {
			t.Fatal(err)
		}
		text := string(doc)
		if !strings.Contains(text, tt.yaml) || strings.Contains(text, "oauth") != (tt.yaml != "") {
			t.Errorf("%s becomes\n%s", tt.entry, text)
		}
		if _, _, err := config.Parse("weir.yaml", doc, config.Options{LookupEnv: func(string) (string, bool) { return "x", true }}); err != nil {
			t.Errorf("%s becomes\n%s%v", tt.entry, text, err)
		}
	}
}
