package catalog

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/catalog/primitive"
)

func TestParseToolID(t *testing.T) {
	n64, n128, v32 := strings.Repeat("n", 64), strings.Repeat("N", 128), strings.Repeat("9", 32)
	tests := []struct {
		in   string
		want ToolID
		ok   bool
	}{
		{"github:create_issue@1.4.0", ToolID{"github", "create_issue", "1.4.0", ""}, true},
		{"slack:slack_send_message#3a91c7d2", ToolID{"slack", "slack_send_message", "", "3a91c7d2"}, true},
		{"billing:refund@1#a1b2c3d4", ToolID{"billing", "refund", "1", "a1b2c3d4"}, true},
		{"mcp:read_file", ToolID{"mcp", "read_file", "", ""}, true},
		{"a:b.c-d_E#98265582", ToolID{"a", "b.c-d_E", "", "98265582"}, true},
		{"a-1_x:_", ToolID{"a-1_x", "_", "", ""}, true},
		{n64 + ":" + n128 + "@" + v32 + "#01234567", ToolID{n64, n128, v32, "01234567"}, true},
		{n64 + "n:a", ToolID{}, false},
		{"a:" + n128 + "N", ToolID{}, false},
		{"a:b@" + v32 + "9", ToolID{}, false},
		{"", ToolID{}, false},
		{"github", ToolID{}, false},
		{":name", ToolID{}, false},
		{"ns:", ToolID{}, false},
		{"Ns:name", ToolID{}, false},
		{"1ns:name", ToolID{}, false},
		{"_ns:name", ToolID{}, false},
		{"ns:1name", ToolID{}, false},
		{"ns:.name", ToolID{}, false},
		{"ns:na me", ToolID{}, false},
		{"ns:näme", ToolID{}, false},
		{"ns:name@", ToolID{}, false},
		{"ns:name#", ToolID{}, false},
		{"ns:name@1@2", ToolID{}, false},
		{"ns:name#01234567#", ToolID{}, false},
		{"ns:name#01234567@1", ToolID{}, false},
		{"ns:name#0123456", ToolID{}, false},
		{"ns:name#012345678", ToolID{}, false},
		{"ns:name#0123456A", ToolID{}, false},
		{"ns:na:me", ToolID{}, false},
		{"ns::name", ToolID{}, false},
		{"ns:name\n", ToolID{}, false},
		{"ns:name@1+2", ToolID{}, false},
		{"ns:name#01234567~2", ToolID{}, false},
		{strings.Repeat("x", 5000), ToolID{}, false},
	}
	for _, tt := range tests {
		got, err := ParseToolID(tt.in)
		if (err == nil) != tt.ok || got != tt.want {
			t.Errorf("ParseToolID(%q) = %+v, %v; want %+v, ok %v", tt.in, got, err, tt.want, tt.ok)
			continue
		}
		if err != nil {
			if !errors.Is(err, errToolID) || len(err.Error()) > 400 {
				t.Errorf("ParseToolID(%q): error %v is no short ErrToolID", tt.in, err)
			}
			continue
		}
		if back := got.join(); back != tt.in {
			t.Errorf("%+v is joined to %q, want %q", got, back, tt.in)
		}
	}
}

func FuzzParseToolID(f *testing.F) {
	f.Add("github:create_issue@1.4.0#01234567")
	f.Add("resource::file:README#a8c506b1")
	f.Fuzz(func(t *testing.T, s string) {
		kind, body := splitKind(s)
		id, err := ParseToolID(body)
		if err != nil {
			return
		}
		if back := prefixOf(kind) + id.join(); back != s {
			t.Errorf("%q parses to %+v and is joined to %q", s, id, back)
		}
	})
}

// identified returns a tool of a server with the configured namespace, which may be "".
func identified(rawName, configured string) Entry {
	e := Entry{Kind: primitive.KindTool, RawName: rawName}
	e.identify(configured)
	return e
}

// The vectors of the identity rules: what an anonymous catalog makes of names,
// and hashes that every implementation must agree on.
func TestIdentityVectors(t *testing.T) {
	const (
		none = ``
		ab   = `{"type":"object","properties":{"b":{"type":"string"},"a":{}},"required":["b"]}`
	)
	tests := []struct{ raw, schema, namespace, name, hash string }{
		{"read_file", none, "mcp", "read_file", "559d82ea"},
		{"read_file", `{"properties":{"path":{"type":"string"}},"required":["path"]}`, "mcp", "read_file", "85b56782"},
		{"github.create_issue", ab, "github", "create_issue", "9b1b5891"},
		{"gitlab.create_issue", ab, "gitlab", "create_issue", "4c60b5b2"},
		{"slack_send_message", `{"properties":{"channel":{},"text":{}},"required":["text","channel"]}`, "slack", "slack_send_message", "283a5dcf"},
		{"a.b.c", `{}`, "a", "b.c", "98265582"},
		{"tool_é", `{"properties":{"naïve":{}}}`, "mcp", "tool__", "64175415"},
	}
	for _, tt := range tests {
		if e := identified(tt.raw, ""); e.Namespace != tt.namespace || e.Name != tt.name {
			t.Errorf("%q becomes %q %q, want %q %q", tt.raw, e.Namespace, e.Name, tt.namespace, tt.name)
		}
		if got := hashTool(tt.raw, json.RawMessage(tt.schema)); got != tt.hash {
			t.Errorf("Hash8(%q, %s) = %s, want %s", tt.raw, tt.schema, got, tt.hash)
		}
	}
	if got := hashResource("file:///docs/readme.md"); got != "a8c506b1" {
		t.Errorf("HashResource = %s", got)
	}
	if got := hashPrompt("summarize_pr", []string{"repo", "pr"}); got != "d72fe684" {
		t.Errorf("HashPrompt = %s", got)
	}
}

func TestHash8IgnoresProseAndOrder(t *testing.T) {
	base := hashTool("t", json.RawMessage(`{"properties":{"a":{},"b":{}},"required":["a","b"]}`))
	for _, same := range []string{
		`{"required":["b","a"],"properties":{"b":{"type":"number"},"a":{"description":"x"}},"title":"t"}`,
		` { "properties" : { "a" : { } , "b" : [1,{"c":2}] } , "required" : [ "a" , "b" ] } `,
		`{"properties":{"\u0061":{},"b":{}},"required":["a","\u0062"]}`,
		`{"properties":{"z":{}},"properties":{"a":{},"b":{}},"required":["a","b"]}`,
	} {
		if got := hashTool("t", json.RawMessage(same)); got != base {
			t.Errorf("Hash8 of %s is %s, want %s", same, got, base)
		}
	}
	for _, different := range []string{
		`{"properties":{"a":{}},"required":["a","b"]}`,
		`{"properties":{"a":{},"b":{}},"required":["a"]}`,
		`{"Properties":{"a":{},"b":{}},"required":["a","b"]}`,
		`{"properties":null,"required":null}`, `[]`, `null`, ``,
	} {
		if got := hashTool("t", json.RawMessage(different)); got == base {
			t.Errorf("Hash8 of %s is %s too", different, got)
		}
	}
}

func TestCanonicalStringsAreEscapedAsASCII(t *testing.T) {
	got := string(appendASCII(nil, "a\"\\/\b\t\n\f\r\x01\x7fé中😀<>&"))
	want := `"a\"\\/\b\t\n\f\r\u0001\u007f\u00e9\u4e2d\ud83d\ude00<>&"`
	if got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestInferNamespace(t *testing.T) {
	tests := []struct{ raw, namespace, name string }{
		{"weather.get", "weather", "get"},
		{"fs/read", "fs", "read"},
		{"fs/read.text", "fs_read", "text"},
		{"read_file", "mcp", "read_file"},
		{"a_b_c", "a", "a_b_c"},
		{"_b_c", "mcp", "_b_c"},
		{".hidden", "mcp", "_.hidden"},
		{".a/b", "a", "b"},
		{"trailing.", "trailing", "trailing."},
		{"trailing/", "trailing", "trailing_"},
		{"GitHub.List", "github", "List"},
		{"", "mcp", "_"},
		{"9lives", "mcp", "_9lives"},
		{"1password.get", "n1password", "get"},
		{"使用.搜索", "mcp", "__"},
	}
	for _, tt := range tests {
		if e := identified(tt.raw, ""); e.Namespace != tt.namespace || e.Name != tt.name {
			t.Errorf("%q becomes %q %q, want %q %q", tt.raw, e.Namespace, e.Name, tt.namespace, tt.name)
		}
	}
}

func TestConfiguredNamespace(t *testing.T) {
	tests := []struct{ raw, namespace, name string }{
		{"github.create_issue", "github", "create_issue"},
		{"GitHub.create_issue", "github", "create_issue"},
		{"github/create_issue", "github", "create_issue"},
		{"github/v1.create", "github", "v1.create"},
		{"github.create_issue", "gh", "github.create_issue"},
		{"gl/create", "gh", "gl_create"},
		{"slack_send_message", "slack", "slack_send_message"},
		{"github.", "github", "github."},
	}
	for _, tt := range tests {
		if e := identified(tt.raw, tt.namespace); e.Name != tt.name {
			t.Errorf("%q of %q becomes %q, want %q", tt.raw, tt.namespace, e.Name, tt.name)
		}
	}
}

func TestMappingAlwaysGivesLegalParts(t *testing.T) {
	long := strings.Repeat("Ab.c/", 60)
	for _, s := range []string{"", " ", "a b", "@scope/server", "1", "--", "Ünïcode", long, long + "x", "ok", "\xff\x00"} {
		ns, name := MapNamespace(s), mapName(s)
		if !legalNamespace(ns) || !legalName(name) {
			t.Errorf("%q maps to %q and %q", s, ns, name)
		}
	}
	if MapNamespace(long) == MapNamespace(long+"x") || mapName(long) == mapName(long+"x") {
		t.Error("long names that differ at their end map to the same")
	}
}

func TestPrimitiveIDs(t *testing.T) {
	tests := []struct {
		in   string
		kind primitive.Kind
		ok   bool
	}{
		{"resource::fs:readme#ab12cd34", primitive.KindResource, true},
		{"prompt::gh:summarize#deadbeef", primitive.KindPrompt, true},
		{"gh:summarize#deadbeef", primitive.KindTool, true},
		{"tool::gh:summarize#deadbeef", "", false},
		{"resource::fs:readme#ab12cd34~2", "", false},
		{"resource:fs:readme#ab12cd34", "", false},
		{"resource::", "", false},
	}
	for _, tt := range tests {
		kind, body := splitKind(tt.in)
		id, err := ParseToolID(body)
		if (err == nil) != tt.ok || tt.ok && kind != tt.kind {
			t.Errorf("%q parses to %v, %+v, %v", tt.in, kind, id, err)
		}
		if back := prefixOf(kind) + id.join(); err == nil && back != tt.in {
			t.Errorf("%q parses to %+v and is joined to %q", tt.in, id, back)
		}
	}
}

func TestResourceNames(t *testing.T) {
	tests := []struct{ uri, name, namespace, wantNamespace, wantName string }{
		{"file:///docs/readme.md", "README", "", "file", "README"},
		{"file:///docs/my%20file.md", "", "", "file", "my file.md"},
		{"note://1", "", "notes", "notes", "1"},
		{"plain", "", "", "mcp", "plain"},
		{"https://example.com/", "", "web", "web", "example.com"},
	}
	for _, tt := range tests {
		ns, name := resourceName(tt.uri, tt.name, tt.namespace)
		if ns != tt.wantNamespace || name != tt.wantName {
			t.Errorf("resourceName(%q, %q, %q) = %q, %q", tt.uri, tt.name, tt.namespace, ns, name)
		}
	}
}
