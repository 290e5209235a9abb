package redact

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/testkit/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

// TestForms: a secret is found in each form in which a program may write it, and
// nothing of it is left.
func TestForms(t *testing.T) {
	for _, secret := range []string{"hunter22", "p@ss w+rd/1?&<x>'", `quo"ted\slash1`, "schlüssel-€-42", "~tilde!(1)*", "line\nbreak-9"} {
		set := New([]string{"another-one", secret})
		html5 := strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;", "'", "&#x27;").Replace(secret)
		escaped, _ := json.Marshal(secret)
		u := url.URL{Scheme: "https", Host: "h", User: url.UserPassword("u", secret), Path: "/" + secret}
		var full, fullUpper, units strings.Builder
		for i := range len(secret) {
			fmt.Fprintf(&full, "%%%02x", secret[i])
			fmt.Fprintf(&fullUpper, "%%%02X", secret[i])
		}
		for _, r := range secret {
			fmt.Fprintf(&units, `\u%04x`, r)
		}
		texts := map[string]string{
			"plain": secret, "JSON": string(escaped[1 : len(escaped)-1]), "HTML": html.EscapeString(secret), "HTML of others": html5,
			"query": url.QueryEscape(secret), "path": url.PathEscape(secret), "URL": u.EscapedPath()[1:],
			"lower-case query": lowerEscapes(url.QueryEscape(secret)), "every byte": full.String(), "every byte, capitals": fullUpper.String(),
			"every character": units.String(), "hex": hex.EncodeToString([]byte(secret)), "HEX": strings.ToUpper(hex.EncodeToString([]byte(secret))),
		}
		for _, before := range []string{"", "u:", "user:", "some user:"} {
			for name, encoding := range map[string]*base64.Encoding{"std": base64.StdEncoding, "url": base64.URLEncoding, "raw": base64.RawStdEncoding} {
				texts["base64 "+name+" after "+before] = encoding.EncodeToString([]byte(before + secret))
				texts["base64 "+name+" in the middle of "+before] = encoding.EncodeToString([]byte(before + secret + ", and more"))
			}
		}
		for name, text := range texts {
			if got, want := set.Replace("a text ("+text+") of a server"), "a text ("+Mark+") of a server"; got != want {
				t.Errorf("%q as %s: %q became %q", secret, name, text, got)
			}
			if !set.Holds(text) {
				t.Errorf("%q as %s is not found in %q", secret, name, text)
			}
		}
	}
}

func TestReplace(t *testing.T) {
	set := New([]string{"hunter2hunter2", "hunter2hunter2-long", "on", "12345"})
	for in, want := range map[string]string{
		"":                                     "",
		"short":                                "short",
		"on 12345":                             "on 12345",
		"hunter2hunter2":                       Mark,
		"hunter2hunter2-long and more":         Mark + " and more",
		"hunter2hunter2hunter2hunter2-longer!": Mark + Mark + "er!",
		"hunter2hunter":                        "hunter2hunter",
	} {
		if got := set.Replace(in); got != want {
			t.Errorf("%q became %q, want %q", in, got, want)
		}
	}
	for _, empty := range []*Set{nil, New(nil), New([]string{"short"})} {
		if empty.Holds("short") || empty.Replace("short") != "short" {
			t.Error("an empty set finds something")
		}
	}
}

func TestInURL(t *testing.T) {
	for in, want := range map[string][]string{
		"https://mcp.tavily.com/mcp/?tavilyApiKey=letmein":                                     {"letmein"},
		"https://ann:p%40ssword@h/mcp":                                                         {"p%40ssword", "p@ssword"},
		"https://ghx0123456789abcdefABCDEF@h/mcp":                                              {"ghx0123456789abcdefABCDEF"},
		"https://h/s/Zk3x9QpL0vT7mN2b/mcp":                                                     {"Zk3x9QpL0vT7mN2b"},
		"https://h/u/123e4567-e89b-12d3-a456-426614174000/sse":                                 {"123e4567-e89b-12d3-a456-426614174000"},
		"https://h/mcp?x=a1b2c3d4e5&mode=read-only,write&version=2025-06-18&page=12345":        {"a1b2c3d4e5"},
		"https://h/mcp?auth=Bearer%20abcdef1":                                                  {"Bearer abcdef1", "Bearer%20abcdef1", "abcdef1"},
		"https://api.githubcopilot.com/mcp/x/pull_requests/readonly":                           nil,
		"https://h/modelcontextprotocol/MyVeryLongServerNameForMcp/my-awesome-server-v2":       nil,
		"https://h/mcp?toolsets=repositories,issues&max_tokens=1000000&primaryKey=customer_id": nil,
		"not a URL": nil,
	} {
		if got := InURL(in); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", in, got, want)
		}
	}
}

func TestInArgs(t *testing.T) {
	for _, tt := range []struct {
		args, want []string
	}{
		{[]string{"-y", "server", "--token", "letmein", "--api-key=opensesame"}, []string{"letmein", "opensesame"}},
		{[]string{"--accessToken", "letmein", "--db-password", "correct horse", "--client_secret", "-x0Y1z2A3b4C5d6E7f"}, []string{"-x0Y1z2A3b4C5d6E7f", "correct horse", "letmein"}},
		{[]string{"mcp-remote", "https://h/mcp?key=letmein", "--header", "Authorization: Bearer opensesame"}, []string{"Bearer opensesame", "letmein", "opensesame"}},
		{[]string{"run", "-i", "-e", "GITHUB_TOKEN=letmein", "-e", "LOG_LEVEL=debugging", "ghcr.io/github/server"}, []string{"letmein"}},
		{[]string{"postgresql://ann:letmein@db/x?sslmode=require"}, []string{"letmein"}},
		{[]string{"host=db user=ann password=letmein"}, []string{"letmein"}},
		{[]string{"--headers", `{"X-Api-Key": "letmein", "accept": "application/json"}`}, []string{"letmein"}},
		{[]string{"-c", "exec server --token 'letmein'"}, []string{"letmein"}},
		{[]string{"-k", "Zk3x9QpL0vT7mN2bQ8"}, []string{"Zk3x9QpL0vT7mN2bQ8"}},
		{[]string{"-uann", "-pHunter-2!", "-kZk3x9QpL0vT7mN2bQ8", "-c", "mysql -uann -pl3tme1n#9"}, []string{"Hunter-2!", "Zk3x9QpL0vT7mN2bQ8", "l3tme1n#9"}},
		{[]string{"-pl3tme1n#9=n", "-kWmszeDlRcEwdlQ3ZOMm1ON2JROA==", "-pQWxhZGRpbjpvcGVuIHNlc2FtZQ=="}, []string{"QWxhZGRpbjpvcGVuIHNlc2FtZQ==", "WmszeDlRcEwdlQ3ZOMm1ON2JROA==", "l3tme1n#9=n"}},
		{[]string{"-profile=prod", "-plugin.dir=/opt/plugins", "-path=/srv/a", "-p=8080", "-Pversion=1.2.3"}, nil},
		{[]string{"-profile", "-p8080:80", "-p/etc/tls/server.pem", "-port=8080", "-pod-name", "-p", "-Dspring.profiles.active=production"}, nil},
		{[]string{"--key-file", "/etc/tls/server.pem", "--key", "/etc/tls/server.key", "--max-tokens", "100000", "--auth", "bearer", "--token", "--verbose", "--author", "somebody"}, nil},
		{[]string{"-y", "@modelcontextprotocol/server-filesystem@2025.1.14", "/home/ann/projects", "--public-key", "letmein"}, nil},
	} {
		if got := InArgs(tt.args); !slices.Equal(got, tt.want) {
			t.Errorf("%q: %q, want %q", tt.args, got, tt.want)
		}
	}
}

// FuzzReplace: what was replaced is not found again, and texts without a secret stay.
func FuzzReplace(f *testing.F) {
	f.Add("hunter22", "a hunter22 b")
	f.Add("p@ss w0rd", "p%40ss+w0rd p%40ss%20w0rd")
	f.Fuzz(func(t *testing.T, secret, text string) {
		set := New([]string{secret})
		got := set.Replace(text)
		if !set.Holds(text) && got != text {
			t.Errorf("%q became %q without %q in it", text, got, secret)
		}
		if !strings.Contains(Mark, secret) && len(secret) >= MinSecret && strings.Contains(strings.ReplaceAll(got, Mark, "\x00"), secret) {
			t.Errorf("%q in %q is left in %q", secret, text, got)
		}
	})
}

func BenchmarkReplaceNothing(b *testing.B) {
	secrets := make([]string, 20)
	for i := range secrets {
		secrets[i] = fmt.Sprintf("s3cret-%02d-%x", i, i*7919)
	}
	set := New(secrets)
	text := strings.Repeat("The quick brown fox jumps over the lazy dog; 17 of them, at https://example.com/x?y=z. ", 1<<13)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		set.Replace(text)
	}
}

func ExampleSet_Replace() {
	secrets := InURL("https://mcp.example.com/mcp?apiKey=letmein")
	fmt.Println(New(secrets).Replace("401: the key letmein is not known (bGV0bWVpbg==)"))
	// Output: 401: the key [redacted] is not known ([redacted])
}
