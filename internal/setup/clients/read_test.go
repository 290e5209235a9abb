package clients

import (
	"strings"
	"testing"
)

func TestVariables(t *testing.T) {
	for _, c := range []struct {
		syntax   syntax
		windows  bool
		in, want string // want "!" for a text that stays in the client
	}{
		{literal, false, "a ${B} $C", "a $${B} $C"},
		{braces, false, "${A}-${B:-c}-$D", "${env:A}-$${B:-c}-$D"},
		{withDefault, false, "${A:-b c}/${D}", "${A:-b c}/${env:D}"},
		{withDefault, false, "cost $5 ${", "cost $5 $${"},
		{withDefault, false, "$${A}", "!"},
		{named, false, "${env:A} ${A} ${userHome}${/}x", "${env:A} $${A} ${userHome}${/}x"},
		{named, false, "${workspaceFolder}/x", "!"},
		{editor, false, "${input:key}", "${input:key}"},
		{editor, false, "${command:pick}", "!"},
		{inputs, false, "${input:key} ${env:A}", "${input:key} $${env:A}"},
		{shellLike, false, "$A/${B} %C%", "${A:-}/${B:-} %C%"},
		{shellLike, true, "%C% 100%", "${C:-} 100%"},
		{curly, false, "x{env:A}y ${B}", "x${A:-}y $${B}"},
		{curly, false, "{file:~/.key}", "!"},
		{secrets, false, "Bearer ${{ secrets.MCP_KEY }}", "Bearer ${env:MCP_KEY}"},
		{shell, false, "$A ${B} ${C:-d} $$", "${env:A} ${env:B} ${C:-d} $"},
		{shell, false, "$(cat /etc/passwd)", "!"},
		{shell, false, "`id`", "!"},
		{shell, false, "${A:?no}", "!"},
		{own, false, "${env:A} $${B}", "${env:A} $${B}"},
	} {
		got, err := c.syntax.translate(c.in, c.windows)
		if err != nil {
			got = "!"
		}
		if got != c.want {
			t.Errorf("%d: %q becomes %q (%v), want %q", c.syntax, c.in, got, err, c.want)
		}
	}
}

// TestOwnVariables leaves servers in their client that would be given variables of weir's own.
func TestOwnVariables(t *testing.T) {
	for entry, want := range map[string]string{
		`"command": "x", "env": {"T": "${env:WEIR_TOKEN}"}`:                          "WEIR_TOKEN",
		`"command": "x", "args": ["--token=${env:weir_hub_token}"]`:                  "weir_hub_token",
		`"url": "https://a.example/${env:WEIR_TOKEN}"`:                               "WEIR_TOKEN",
		`"url": "https://a.example/mcp", "headers": {"A": "b ${env:WEIR_URL}"}`:      "WEIR_URL",
		`"url": "https://a.example/mcp", "auth": {"CLIENT_ID": "${env:WEIR_TOKEN}"}`: "WEIR_TOKEN",
		`"command": "x", "env": {"WEIR_TOKEN": "${env:MY_WEIR_TOKEN}"}`:              "",
		`"command": "x", "args": ["${WEIR_TOKEN}"]`:                                  "", // a text in Cursor
	} {
		c, _ := ByID("cursor")
		servers, _, err := Servers(c, []byte(`{"mcpServers": {"a": {`+entry+`}}}`), machine)
		if err != nil || len(servers) != 1 {
			t.Fatal(servers, err)
		}
		if got := servers[0].Stay; want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%s: stays %q, want %q", entry, got, want)
		}
	}
}

func TestUnwrap(t *testing.T) {
	for in, want := range map[string]string{
		"npx -y mcp-remote@0.1.37 https://a.example/mcp":                                    "http https://a.example/mcp map[]",
		"bunx mcp-remote https://a.example/sse":                                             "sse https://a.example/sse map[]",
		"pnpm dlx mcp-remote https://a.example/mcp 3334 --allow-http --transport http-only": "http https://a.example/mcp map[]",
		"cmd /c npx -y mcp-remote https://a.example/mcp --transport sse-only":               "sse https://a.example/mcp map[]",
		"npx mcp-remote https://a.example/mcp --header X-Key:$${KEY} --header=B:2":          "http https://a.example/mcp map[B:2 X-Key:value]",
		"npx mcp-remote https://a.example/mcp --static-oauth-client-info {}":                "",
		"npx mcp-remote https://a.example/mcp --header":                                     "",
		"npx -y other https://a.example/mcp":                                                "",
		"npx":                                                                               "",
	} {
		words := strings.Fields(in)
		s := Server{Transport: Stdio, Command: words[0], Args: words[1:], Env: map[string]string{}}
		if strings.Contains(in, "KEY") {
			s.Env["KEY"] = "value"
		}
		got := ""
		if remote, ok := unwrap(s); ok {
			got = string(remote.Transport) + " " + remote.URL + " " + strings.ReplaceAll(strings.TrimSpace(sprint(remote.Headers)), "\n", "")
		}
		if got != want {
			t.Errorf("%s: got %q, want %q", in, got, want)
		}
	}
	// A variable of the bridge itself, such as one for certificates, keeps the bridge.
	if _, ok := unwrap(Server{Transport: Stdio, Command: "npx", Args: []string{"mcp-remote", "https://a.example/mcp"}, Env: map[string]string{"NODE_EXTRA_CA_CERTS": "/ca.pem"}}); ok {
		t.Error("the variables of mcp-remote are lost")
	}
}

func TestWeirIsKnownByWhatItIs(t *testing.T) {
	h := How{URL: "http://127.0.0.1:8088/mcp", Known: []string{"http://127.0.0.1:9000/mcp"}}
	for doc, want := range map[string]bool{
		`{"command": "/opt/homebrew/bin/weir", "args": ["attach", "--client", "cursor"]}`:      true,
		`{"command": "C:\\Tools\\weir.exe", "args": ["attach"]}`:                               true,
		`{"command": "npx", "args": ["-y", "weir-mcp@1.2.3", "attach", "--client", "cursor"]}`: true,
		`{"command": "cmd", "args": ["/c", "npx", "-y", "weir-mcp", "attach"]}`:                true,
		`{"command": "uvx", "args": ["weir-mcp", "attach"]}`:                                   true,
		`{"command": "weir", "args": ["serve", "--stdio"]}`:                                    true,
		`{"url": "http://localhost:8088/mcp/"}`:                                                true,
		`{"url": "http://[::1]:9000/mcp"}`:                                                     true,
		`{"url": "http://localhost:8088/mcp/team"}`:                                            true,
		`{"url": "http://127.0.0.1:8088/mcp/team/mcp"}`:                                        false,
		`{"url": "http://127.0.0.1:8088/mcpx"}`:                                                false,
		`{"url": "http://127.0.0.1:8089/mcp"}`:                                                 false,
		`{"url": "http://127.0.0.1:8088/mcps/other/mcp"}`:                                      false,
		`{"command": "weir", "args": ["call"]}`:                                                false,
		`{"command": "npx", "args": ["-y", "@other/weir", "attach"]}`:                          false,
	} {
		c, _ := ByID("cursor")
		servers, _, err := Servers(c, []byte(`{"mcpServers": {"named-otherwise": `+doc+`}}`), machine)
		if err != nil || len(servers) != 1 {
			t.Fatalf("%s: %v", doc, err)
		}
		if got := h.IsOurs(servers[0]); got != want {
			t.Errorf("%s: ours is %t", doc, got)
		}
	}
}

// TestForeignEntryOfTheSameName keeps a server that is called weir and is not.
func TestForeignEntryOfTheSameName(t *testing.T) {
	c, _ := ByID("gemini")
	doc := []byte(`{"mcpServers": {"weir": {"command": "river-gauge"}, "old": {"httpUrl": "http://localhost:8088/mcp"}, "older": {"command": "weir", "args": ["attach"]}}}`)
	edits, err := c.Connect(doc, gateway, nil, machine)
	if err != nil {
		t.Fatal(err)
	}
	out, _, err := c.Apply(doc, edits)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := string(out), `"weir": {"command": "river-gauge"}`; !strings.Contains(got, want) || strings.Contains(got, "older") || !strings.Contains(got, `"old"`) {
		t.Errorf("the file is %s", got)
	}
	doc = []byte(`{"mcpServers": {"weir": {"command": "river-gauge"}}}`)
	if edits, err = c.Connect(doc, gateway, nil, machine); err != nil || len(edits) != 1 || edits[0].Server == "weir" {
		t.Errorf("edits %v, %v", edits, err)
	}
	if edits, err = c.Disconnect(doc, gateway, machine); err != nil || len(edits) != 0 {
		t.Errorf("disconnect takes %v, %v", edits, err)
	}
}

// TestConnectKeepsOddBytes has the bytes that other programs lose: comments, long numbers, a comma
// at the end, CRLF, no final newline.
func TestConnectKeepsOddBytes(t *testing.T) {
	c, _ := ByID("claude-code")
	doc := "\ufeff{\r\n    // head\r\n    \"zeta\": 12345678901234567890,\r\n    \"a/b~c\": [ 1,2 ],\r\n    \"mcpServers\": {\r\n        \"x\": {\"command\": \"x\"}, // tail\r\n    },\r\n}"
	edits, err := c.Connect([]byte(doc), gateway, nil, machine)
	if err != nil {
		t.Fatal(err)
	}
	out, _, err := c.Apply([]byte(doc), edits)
	if err != nil {
		t.Fatal(err)
	}
	for _, kept := range []string{"\ufeff{\r\n    // head\r\n", "12345678901234567890", `"a/b~c": [ 1,2 ]`, "// tail\r\n"} {
		if !strings.Contains(string(out), kept) {
			t.Errorf("%q is lost in %q", kept, out)
		}
	}
	if strings.Count(string(out), "\n") != strings.Count(string(out), "\r\n") {
		t.Errorf("line ends are mixed: %q", out)
	}
	edits, err = c.Disconnect(out, gateway, machine)
	if err != nil {
		t.Fatal(err)
	}
	back, _, err := c.Apply(out, edits)
	if err != nil || string(back) != doc {
		t.Errorf("disconnect gives %q, %v", back, err)
	}
}

func TestEntriesForWindows(t *testing.T) {
	c, _ := ByID("claude-desktop")
	for command, want := range map[string]string{
		"npx":             "[{command cmd} {args [/c npx attach --client claude-desktop]}]",
		`C:\bin\weir.exe`: `[{command C:\bin\weir.exe} {args [attach --client claude-desktop]}]`,
		`C:\bin\weir.cmd`: `[{command cmd} {args [/c C:\bin\weir.cmd attach --client claude-desktop]}]`,
	} {
		if got := sprint(c.Entry(How{URL: "http://127.0.0.1:8088/mcp", Command: []string{command}, Windows: true})); got != want {
			t.Errorf("%s: %s, want %s", command, got, want)
		}
	}
	crush, _ := ByID("crush")
	if got := sprint(crush.Entry(How{Command: []string{"/opt/$(id)/weir"}})); !strings.Contains(got, `/opt/\$(id)/weir`) {
		t.Errorf("a shell expands %s", got)
	}
}

// TestConnectTakesOnlyWhatMoved has two files of one client with different servers of one name.
func TestConnectTakesOnlyWhatMoved(t *testing.T) {
	c, _ := ByID("opencode")
	first := []byte(`{"mcp": {"github": {"type": "remote", "url": "https://a.example/mcp"}}}`)
	second := []byte(`{"mcp": {"github": {"type": "remote", "url": "https://b.example/mcp"}}}`)
	moved, _, err := Servers(c, first, machine)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range []struct {
		doc  []byte
		want int // edits: weir's entry, and the server that moved
	}{{first, 2}, {second, 1}} {
		if edits, err := c.Connect(f.doc, gateway, moved, machine); err != nil || len(edits) != f.want {
			t.Errorf("%s: edits %v, %v; want %d", f.doc, edits, err, f.want)
		}
	}
}
