package clients

import (
	"testing"

	"github.com/weir-mcp/weir/internal/json/splice"
)

// TestSecretsAroundVariables: what stands around a variable, or is the default of one, is hidden where
// it is a secret. The variables stay, and so do other texts.
func TestSecretsAroundVariables(t *testing.T) {
	const key = "ghp_0123456789abcdefghijklmnopqrstuv"
	for _, tt := range []struct{ parent, key, text, want string }{
		{"", "url", "postgres://u:password1@${env:DBHOST}:${PORT:-5432}/db", "postgres://u:•••@${env:DBHOST}:${PORT:-5432}/db"},
		{"", "url", "https://u:pass1${env:P}word2@a.example/mcp", "https://u:•••${env:P}•••@a.example/mcp"},
		{"", "url", "https://${HOST:-a.example}/mcp?token=${T:-hunter22}", "https://${HOST:-a.example}/mcp?token=${T:-•••}"},
		{"", "url", "https://${HOST}:${PORT}/v1/mcp?token=${T}", "https://${HOST}:${PORT}/v1/mcp?token=${T}"},
		{"env", "DB", "postgres://u:password1@${env:DBHOST}/db", "postgres://u:•••@${env:DBHOST}/db"},
		{"env", "DB", "postgres://u:${PW:-password1}@db/x", "postgres://u:${PW:-•••}@db/x"},
		{"env", "PAGER", "${X:-" + key + "}", "${X:-•••}"},
		{"env", "PAGER", "${X:-${Y:-" + key + "}}", "${X:-${Y:-•••}}"},
		{"env", "PAGER", "${X}" + key, "${X}•••"},
		{"env", "API_TOKEN", "abc$${x}def${env:X}", "•••${env:X}"},
		{"env", "API_TOKEN", "abc$" + "${X:-y}", "•••"},
		{"env", "API_TOKEN", "${env:X}", "${env:X}"},
		{"env", "API_TOKEN", "${X:-}", "${X:-}"},
		{"env", "TOKEN_FILE", "${userHome}${/}.config/token.json", "${userHome}${/}.config/token.json"},
		{"env", "TOKEN_FILE", "${env:HOME}/token.json", "${env:HOME}/token.json"},
		{"env", "MODE", "fast-${env:X}", "fast-${env:X}"},
		{"headers", "Authorization", "Basic dXNlcjpwYXNz${env:X}", "Basic •••${env:X}"},
		{"headers", "Authorization", "Bearer ${env:X}", "Bearer ${env:X}"},
		{"headers", "Authorization", "Bearer ${T:-s3cret-text}", "Bearer ${T:-•••}"},
		{"args", "", "--api-key=sk-0123456789abcdef${env:X}", "--api-key=•••${env:X}"},
		{"args", "--password", "hunter${env:X}", "•••${env:X}"},
		{"args", "--header", "Authorization: Bearer ${env:X}", "Authorization: Bearer ${env:X}"},
		{"args", "--header", "Authorization: Bearer abcdefgh${env:X}", "Authorization: Bearer •••${env:X}"},
		{"args", "--dsn", "postgres://u:password1@${env:H}/db", "postgres://u:•••@${env:H}/db"},
		{"args", "--root", "${workspaceFolder}/src", "${workspaceFolder}/src"},
	} {
		entry := splice.Object{{Key: tt.key, Value: tt.text}}
		switch tt.parent {
		case "args":
			entry = splice.Object{{Key: "args", Value: []any{tt.key, tt.text}}}
		case "env", "headers":
			entry = splice.Object{{Key: tt.parent, Value: entry}}
		}
		var got any
		for shown := any(Hide("notes", entry)); got == nil; {
			switch v := shown.(type) {
			case splice.Object:
				shown = v[0].Value
			case []any:
				shown = v[1]
			default:
				got = v
			}
		}
		if got != tt.want {
			t.Errorf("%s.%s: %s is shown as %s, want %s", tt.parent, tt.key, tt.text, got, tt.want)
		}
	}
}
