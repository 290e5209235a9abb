package cli

import (
	"strings"
	"testing"
)

// People type the command as they know it. The error has the line that they meant.
func TestCommandLine(t *testing.T) {
	for typed, want := range map[string]string{
		"npx @modelcontextprotocol/server-memory":           "weir add memory -- npx -y @modelcontextprotocol/server-memory",
		"npx -y @modelcontextprotocol/server-filesystem /a": "weir add filesystem -- npx -y @modelcontextprotocol/server-filesystem /a",
		"uvx mcp-server-time":                               "weir add time -- uvx mcp-server-time",
		"uvx some-mcp-server@1.2":                           "weir add some -- uvx some-mcp-server@1.2",
		"docker run -i --rm mcp/fetch":                      "weir add fetch -- docker run -i --rm mcp/fetch",
		"node ./build/index.js":                             "weir add index -- node ./build/index.js",
		"memory knowledge":                                  "",
		"npx":                                               "",
		"time uvx mcp-server-time":                          "",
	} {
		if got := commandLine(strings.Fields(typed), -1, ""); got != want {
			t.Errorf("%s: %q, want %q", typed, got, want)
		}
	}
	if got := commandLine([]string{"npx", "pkg"}, -1, "mine"); got != "weir add mine -- npx -y pkg" {
		t.Errorf("with --name: %q", got)
	}
	if got := commandLine([]string{"npx", "pkg"}, 0, "mine"); got != "" {
		t.Errorf("behind --: %q", got)
	}
	out := weir(t, "add", "npx", "-y", "@modelcontextprotocol/server-memory")
	if out.code != exitUsage || !strings.Contains(out.stderr, "weir add memory -- npx -y @modelcontextprotocol/server-memory") {
		t.Errorf("%+v", out)
	}
}
