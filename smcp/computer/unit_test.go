package computer

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-mcp/weir/internal/catalog/primitive"
	"github.com/weir-mcp/weir/internal/office/a2c"
	"github.com/weir-mcp/weir/smcp"
)

func TestParse(t *testing.T) {
	for _, test := range []struct {
		name, text string
		want       []string // name:type:command or url
		warnings   int
		err        string
	}{
		{"MCP clients", `{"mcpServers":{"a":{"command":"x","args":["1"]},"b":{"url":"http://h/mcp"}}}`, []string{"a:stdio:x", "b:streamable:http://h/mcp"}, 0, ""},
		{"the protocol's", `{"servers":{"k":{"name":"a","type":"stdio","disabled":false,"forbidden_tools":["f"],"tool_meta":{},"server_parameters":{"command":"x","env":null,"cwd":null,"encoding":"utf-8"}}},"inputs":[]}`, []string{"a:stdio:x"}, 0, ""},
		{"a list", `[{"name":"a","type":"sse","server_parameters":{"url":"http://h/sse","timeout":5}},{"name":"b","type":"streamable","server_parameters":{"url":"http://h","timeout":"PT30S"}}]`, []string{"a:sse:http://h/sse", "b:streamable:http://h"}, 0, ""},
		{"the first draft's flat form", `{"a":{"type":"http","url":"http://h","disabled":false,"tool_meta":{}},"b":{"type":"stdio","command":"x"}}`, []string{"a:streamable:http://h", "b:stdio:x"}, 0, ""},
		{"one server", `{"name":"a","type":"stdio","command":"x"}`, []string{"a:stdio:x"}, 0, ""},
		{"YAML", "mcpServers:\n  a: {command: x, extra: 1}\n", []string{"a:stdio:x"}, 1, ""},
		{"nothing to start", `{"mcpServers":{"a":{"disabled":true}}}`, nil, 0, "neither command nor url"},
		{"the wrong type", `{"a":{"type":"http","command":"x"}}`, nil, 0, "needs url"},
		{"an unknown type", `{"a":{"type":"pigeon","url":"x"}}`, nil, 0, "pigeon"},
		{"not a mapping", `"x"`, nil, 0, "mapping"},
		{"neither", "\t{", nil, 0, "f:1:3: not valid JSON"},
		{"a bad input", `{"mcpServers":{},"inputs":[{"id":"a","type":"guess"}]}`, nil, 0, "guess"},
		{"two bundles alike", `[{"name":"a b","command":"x"},{"name":"a_b","command":"x"}]`, nil, 0, "bundle"},
		{"two aliases alike", `{"a":{"command":"x","tool_meta":{"t":{"alias":"z"},"u":{"alias":"z"}}}}`, nil, 0, "alias"},
		{"no name", `{"servers":{"":{"command":"x"}}}`, nil, 0, "has no name"},
		{"a wrong flag of a tool", `{"a":{"command":"x","tool_meta":{"t":{"auto_apply":"yes"}}}}`, nil, 0, `f:1:52: a.tool_meta.t.auto_apply must be true, false or "read_only", not the text "yes"`},
		{"wrong tags", `{"a":{"command":"x","default_tool_meta":{"tags":"t"}}}`, nil, 0, "default_tool_meta.tags must be a list of texts"},
		{"more about a tool", `{"a":{"command":"x","tool_meta":{"t":{"colour":1}}}}`, []string{"a:stdio:x"}, 1, ""},
		{"a key twice", `{"a":{"command":"x","command":"y"}}`, nil, 0, `f:1:21: duplicate key "command" in a; it is set on line 1 already`},
		{"the line of a mistake", "mcpServers:\n  a:\n    command: x\n    args: y\n", nil, 0, "f:4:11: mcpServers.a.args must be a list of texts"},
		{"the key that was meant", "mcpServers:\n  a: {command: x, comand: y}\n", []string{"a:stdio:x"}, 1, ""},
		{"a bad bundle", `{"a":{"command":"x","bundle_id":"a__b"}}`, nil, 0, "bundle_id"},
	} {
		t.Run(test.name, func(t *testing.T) {
			f, err := Parse("f", []byte(test.text))
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) {
					t.Fatalf("got %v, want %q", err, test.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, s := range f.Servers {
				got = append(got, s.Name+":"+s.Type+":"+s.Command+s.URL)
			}
			if !reflect.DeepEqual(got, test.want) || len(f.Warnings) != test.warnings {
				t.Errorf("got %v, warnings %v", got, f.Warnings)
			}
		})
	}
}

func testInputs(o Options, defs ...Input) *inputs {
	if o.LookupEnv == nil {
		o.LookupEnv = func(string) (string, bool) { return "", false }
	}
	in := newInputs(&o)
	in.define(defs)
	return in
}

func TestPlaceholders(t *testing.T) {
	in := testInputs(Options{
		LookupEnv: func(name string) (string, bool) {
			v, ok := map[string]string{"HOME": "/home/a", "A2C_SMCP_over": "from env"}[name]
			return v, ok
		},
		Ask:        func(_ context.Context, d Input) (string, bool, error) { return "asked " + d.ID, d.ID == "ask", nil },
		RunCommand: func(context.Context, Input) (string, error) { return "output\n", nil },
	}, Input{ID: "num", Type: InputPrompt, Default: json.RawMessage("8080")}, Input{ID: "text", Type: InputPrompt, Default: json.RawMessage(`"v"`)},
		Input{ID: "list", Type: InputPrompt, Default: json.RawMessage(`["a",1]`)}, Input{ID: "over", Type: InputPrompt, Default: json.RawMessage(`"d"`)},
		Input{ID: "ask", Type: InputPrompt}, Input{ID: "cmd", Type: InputCommand, Command: "c"}, Input{ID: "none", Type: InputPrompt})
	for _, test := range []struct {
		in   string
		want any
	}{
		{"${input:num}", float64(8080)},
		{"port ${input:num}", "port 8080"},
		{"${input:list}", []any{"a", float64(1)}},
		{"x${input:list}", `x["a",1]`},
		{"${input:text}${input:text}", "vv"},
		{"${input:over}", "from env"},
		{"${input:ask}", "asked ask"},
		{"${input:cmd}", "output"},
		{"${input:unknown}", "${input:unknown}"},
		{"a ${input:unknown} b", "a ${input:unknown} b"},
		{"${input:none}", "${input:none}"},
		{"${env:HOME}/x ${HOME}", "/home/a/x /home/a"},
		{"${env:NOT}", "${env:NOT}"},
		{"$HOME {x}", "$HOME {x}"},
	} {
		got, err := in.text(t.Context(), test.in)
		if err != nil || !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s: %#v, %v; want %#v", test.in, got, err, test.want)
		}
	}
	if err := in.set("text", json.RawMessage(`true`)); err != nil {
		t.Fatal(err)
	}
	if got, err := in.text(t.Context(), "${input:text}"); err != nil || got != true {
		t.Errorf("after set: %#v, %v", got, err)
	}
	if err := in.set("missing", json.RawMessage(`1`)); err == nil {
		t.Error("an unknown input was set")
	}
}

// The value of a pickString is one of its options, wherever it comes from.
func TestOptions(t *testing.T) {
	env := map[string]string{}
	in := testInputs(Options{
		LookupEnv: func(name string) (string, bool) { v, ok := env[name]; return v, ok },
		Ask:       func(context.Context, Input) (string, bool, error) { return "three", true, nil },
	}, Input{ID: "p", Type: InputPick, Options: []Option{{"One", "1"}, {"two", "two"}}})
	const none = `is none of its options: "1", "two"`
	value := func(want any, wantErr string) {
		t.Helper()
		got, err := in.text(t.Context(), "${input:p}")
		if wantErr != "" {
			if err == nil || !strings.Contains(err.Error(), wantErr) {
				t.Errorf("%v, %v; want %q", got, err, wantErr)
			}
			return
		}
		if err != nil || got != want {
			t.Errorf("%#v, %v; want %#v", got, err, want)
		}
	}
	value(nil, none) // asked
	if err := in.set("p", json.RawMessage(`"One"`)); err == nil || !strings.Contains(err.Error(), none) {
		t.Errorf("set to a label: %v", err)
	}
	for _, raw := range []string{`"two"`, `1`} {
		if err := in.set("p", json.RawMessage(raw)); err != nil {
			t.Error(err)
		}
		value(strings.Trim(raw, `"`), "")
	}
	env["A2C_SMCP_p"] = "two"
	value("two", "")
	env["A2C_SMCP_p"] = "three"
	value(nil, "variable A2C_SMCP_p: input \"p\": \"three\" "+none)
	delete(env, "A2C_SMCP_p")
	in.define([]Input{{ID: "p", Type: InputPick, Options: []Option{{"3", "three"}}}})
	value("three", "") // asked again: 1 is no choice any more
}

// A Computer has 256 servers at most, however they come.
func TestServersAreBounded(t *testing.T) {
	c, err := New(Options{Name: "c"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	parse := func(from, to int) (*File, error) {
		var all []string
		for i := from; i < to; i++ {
			all = append(all, fmt.Sprintf(`"s%d":{"command":"x","disabled":true}`, i))
		}
		return Parse("f", []byte(`{"mcpServers":{`+strings.Join(all, ",")+`}}`))
	}
	full, err := parse(0, maxServers)
	if err != nil {
		t.Fatal(err)
	}
	one, err := parse(maxServers, maxServers+1)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Load(t.Context(), full); err != nil {
		t.Fatal(err)
	}
	_, parsed := parse(0, maxServers+1)
	for name, err := range map[string]error{
		"a file": parsed, "a list": c.Load(t.Context(), &File{Servers: append(slices.Clone(full.Servers), one.Servers...)}), "one more": c.Put(t.Context(), one.Servers[0]),
	} {
		if err == nil || !strings.Contains(err.Error(), "257 MCP servers are more than the bound of 256") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n := len(c.Servers()); n != maxServers {
		t.Errorf("%d servers afterwards", n)
	}
	if err := c.Put(t.Context(), full.Servers[0]); err != nil {
		t.Errorf("one that is there already: %v", err)
	}
}

// What leaves the Computer holds placeholders.
func TestPublicConfig(t *testing.T) {
	f, err := Parse("f", []byte(`{"servers":{
		"a":{"type":"stdio","command":"x","args":["--t=${input:tok}"],"env":{"TOKEN":"${input:tok}","PLAIN":"hunter2"},"tool_meta":{"t":{"alias":"u"}}},
		"b":{"type":"http","url":"https://me:pass-word@h/mcp","headers":{"Authorization":"Bearer ${input:tok}","X":"secret-literal"}}},
		"inputs":[{"id":"tok","type":"promptString","description":"","password":true,"default":"secret-default"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	c, err := New(Options{Name: "c"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	if err := c.catalog.set(f.Servers, nil, nil); err != nil {
		t.Fatal(err)
	}
	c.inputs.define(f.Inputs)
	for _, flat := range []bool{false, true} {
		config, err := c.config(a2c.Dialect01, flat)
		if err != nil {
			t.Fatal(err)
		}
		raw, err := json.Marshal(config)
		if err != nil {
			t.Fatal(err)
		}
		text := string(raw)
		for _, secret := range []string{"hunter2", "pass-word", "secret-literal", "secret-default"} {
			if strings.Contains(text, secret) {
				t.Errorf("flat %v: %s is in %s", flat, secret, text)
			}
		}
		for _, kept := range []string{`"TOKEN":"${input:tok}"`, `Bearer ${input:tok}`, `--t=${input:tok}`, `"alias":"u"`} {
			if !strings.Contains(text, kept) {
				t.Errorf("flat %v: %s is not in %s", flat, kept, text)
			}
		}
		if is := strings.Contains(text, `"type":"http"`); is != flat {
			t.Errorf("flat %v: %s", flat, text)
		}
	}
}

// What is written out stays on the Computer; placeholders tell where it comes
// from.
func TestMask(t *testing.T) {
	for in, want := range map[string]string{
		"":                             "",
		"literal":                      masked,
		"${input:a}":                   "${input:a}",
		"Bearer ${input:a}":            "Bearer ${input:a}",
		"Bearer literal":               masked,
		"user:pass ${input:a}-${B}":    masked + "${input:a}-${B}",
		"${env:A}${input:b}/pass-word": "${env:A}${input:b}" + masked,
	} {
		if got := maskText(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
	for in, want := range map[string]string{
		"https://h/mcp":                               "https://h/mcp",
		"https://u:p@h/mcp":                           "https://u:x@h/mcp",
		"https://token@h/mcp":                         "https://x@h/mcp",
		"https://u:p@ss@h/mcp":                        "https://u:x@h/mcp",
		"https://u@mail:p@ss@h/a@b?c@d":               "https://u@mail:x@h/a@b?x",
		"https://u:${input:p}@h/mcp":                  "https://u:${input:p}@h/mcp",
		"https://${input:u}:lit@h/mcp":                "https://x@h/mcp",
		"https://h/mcp?key=lit&b=${input:b}&flag#s":   "https://h/mcp?key=x&b=${input:b}&x#x",
		"https://h:80/a@b?k=${input:k}#${input:frag}": "https://h:80/a@b?k=${input:k}#${input:frag}",
		"${input:base}/mcp?key=lit":                   "${input:base}/mcp?key=x",
		"https://u:p%zz@h":                            masked,
		"https://h/s/Zk3x9QpL0vT7mN2b/mcp":            "https://h/s/x/mcp",
		"https://h/s/${input:key}/my-awesome-server":  "https://h/s/${input:key}/my-awesome-server",
	} {
		if got := maskURL(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
	in := []string{"run", "-y", "--api-key=lit", "--token", "lit", "--token", "--verbose", "--password", "${input:p}", "-e", "SOME_TOKEN=lit", "-e", "PLAIN=1",
		"--header", "Authorization: Bearer lit", "--header=X-A:${input:a}", "https://u:p@h/x", "--url=https://h/?k=v", "--author", "me", "a=b", "Zk3x9QpL0vT7mN2bQ8"}
	want := []string{"run", "-y", "--api-key=" + masked, "--token", masked, "--token", "--verbose", "--password", "${input:p}", "-e", "SOME_TOKEN=" + masked, "-e", "PLAIN=1",
		"--header", "Authorization: " + masked, "--header=X-A:${input:a}", "https://u:x@h/x", "--url=https://h/?k=x", "--author", masked, "a=b", masked}
	if got := maskArgs(in); !slices.Equal(got, want) {
		t.Errorf("arguments:\n%q\nwant\n%q", got, want)
	}
}

func TestArrange(t *testing.T) {
	w := func(server, raw string) window { return windowOf(server, json.RawMessage(raw)) }
	windows := []window{
		w("a", `{"uri":"window://a/low?priority=1"}`), w("a", `{"uri":"window://a/high?priority=9"}`),
		w("b", `{"uri":"window://b/1","annotations":{"priority":0.2}}`), w("b", `{"uri":"window://b/2","annotations":{"priority":0.8}}`),
		w("c", `{"uri":"window://c/1"}`), w("c", `{"uri":"window://c/full","_meta":{"fullscreen":true}}`), w("c", `{"uri":"window://c/full2?fullscreen=true"}`),
		w("e", `{"uri":"window://e/1?fullscreen=1"}`), w("e", `{"uri":"window://e/2?fullscreen=1&priority=3"}`),
		w("d", `{"uri":"window://d/q?fullscreen=true","_meta":{"fullscreen":false}}`), w("d", `{"uri":"window://d/bad","annotations":{"priority":7}}`),
	}
	var got []string
	for _, x := range sortWindows(windows, []string{"c", "b"}) {
		got = append(got, strings.TrimPrefix(x.uri, "window://"))
	}
	want := []string{"c/full", "b/2", "b/1", "a/high?priority=9", "a/low?priority=1", "d/q?fullscreen=true", "d/bad", "e/2?fullscreen=1&priority=3"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestSkills(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("good/SKILL.md", "---\nname: good\ndescription: does it\n---\n\n# Body\n")
	write("good/a/b.txt", "inside")
	write("good/.skillenv", "SECRET=1")
	write("good/logo.png", "\x89PNG\x00\x01")
	write("bad/SKILL.md", "# no head\n")
	write("outside.txt", "outside")
	if err := os.Symlink(filepath.Join(dir, "outside.txt"), filepath.Join(dir, "good", "link.txt")); err != nil {
		t.Fatal(err)
	}
	c, err := New(Options{Name: "c", Skills: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	list := c.skills.list()
	if len(list) != 1 || list[0].Name != "good" || list[0].Description != "does it" || !filepath.IsAbs(list[0].Path) {
		t.Errorf("skills: %+v", list)
	}
	for _, test := range []struct {
		name, path string
		body       string
		blob       bool
		code       int
		reason     string
	}{
		{"good", "", "# Body\n", false, 0, ""},
		{"good", "a/b.txt", "inside", false, 0, ""},
		{"good", "logo.png", "", true, 0, ""},
		{"good", "../outside.txt", "", false, smcp.CodeSkillPath, "traversal"},
		{"good", "/etc/passwd", "", false, smcp.CodeSkillPath, "traversal"},
		{"good", "a/../../outside.txt", "", false, smcp.CodeSkillPath, "traversal"},
		{"good", "link.txt", "", false, smcp.CodeSkillPath, "forbidden"},
		{"good", ".skillenv", "", false, smcp.CodeSkillPath, "forbidden"},
		{"good", "none", "", false, smcp.CodeSkillPath, "not_found"},
		{"good", "a", "", false, smcp.CodeSkillPath, "not_found"},
		{"bad", "", "", false, smcp.CodeNoServer, ""},
		{"no such", "", "", false, smcp.CodeSkillName, ""},
		{"..", "", "", false, smcp.CodeSkillName, ""},
	} {
		s, err := c.skills.get(smcp.GetSkill{Name: test.name, RelPath: test.path})
		if test.code != 0 {
			if e := smcp.AsError(err); err == nil || e.Code != test.code || !strings.Contains(string(e.Details), test.reason) {
				t.Errorf("%s %s: %v", test.name, test.path, err)
			}
			continue
		}
		body := ""
		if s.Body != nil {
			body = *s.Body
		}
		if err != nil || body != test.body || (s.BlobHandle != "") != test.blob || (s.Body != nil) == test.blob {
			t.Errorf("%s %s: %+v, %v", test.name, test.path, s, err)
		}
	}
}

func TestUploads(t *testing.T) {
	u := newUploads(t.TempDir())
	defer u.close()
	sum := "b94d27b9934d3e08a52e52d7da7dabfac484efe37a5380ee9088f7ace2efcde9" // hello world
	first := smcp.PutBlob{TotalSize: 11, SHA256: sum, Data: []byte("hello ")}
	done, err := u.put(first)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name, reason string
		req          smcp.PutBlob
	}{
		{"unknown", "invalid_upload", smcp.PutBlob{UploadID: "x", Offset: 6}},
		{"declared twice", "invalid_declaration", smcp.PutBlob{UploadID: done.UploadID, Offset: 6, SHA256: sum}},
		{"no declaration", "invalid_declaration", smcp.PutBlob{Data: []byte("x")}},
		{"too large", "too_large", smcp.PutBlob{TotalSize: maxBlob + 1, SHA256: sum}},
	} {
		if _, err := u.put(test.req); err == nil || !strings.Contains(string(smcp.AsError(err).Details), test.reason) {
			t.Errorf("%s: %v", test.name, err)
		}
	}
	last, err := u.put(smcp.PutBlob{UploadID: done.UploadID, Offset: 6, EOF: true, Data: []byte("world")})
	if err != nil || last.SHA256 != sum || last.TotalSize != 11 {
		t.Fatalf("%+v, %v", last, err)
	}
	if data, err := os.ReadFile(last.LandingPath); err != nil || string(data) != "hello world" {
		t.Errorf("%q, %v", data, err)
	}
	done, err = u.put(first)
	if err != nil {
		t.Fatal(err)
	}
	if _, err = u.put(smcp.PutBlob{UploadID: done.UploadID, Offset: 6, EOF: true, Data: []byte("there")}); err == nil {
		t.Error("a wrong hash was taken")
	}
	left, err := os.ReadDir(u.dir)
	if err != nil || len(left) != 1 {
		t.Errorf("%d files are left, %v", len(left), err)
	}
}

func TestHistoryIsBounded(t *testing.T) {
	c, err := New(Options{Name: "c"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	for i := range maxHistory + 50 {
		c.ledger.record(Record{Time: time.Now(), ReqID: strconv.Itoa(i), Tool: "t", Server: "s", Arguments: make(json.RawMessage, maxHistoryArgs+1)})
	}
	if h := c.History(); len(h) != maxHistory || h[0].Arguments != nil || h[0].ReqID != "50" || h[maxHistory-1].ReqID != strconv.Itoa(maxHistory+49) {
		t.Errorf("%d records, from %s to %s", len(h), h[0].ReqID, h[len(h)-1].ReqID)
	}
	// The same name for a call in flight is refused.
	_, end, err := c.ledger.begin(t.Context(), "r", 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := c.ledger.begin(t.Context(), "r", 0); err == nil {
		t.Error("a req_id in flight was taken twice")
	}
	end()
	if _, end, err = c.ledger.begin(t.Context(), "r", 0); err != nil {
		t.Error(err)
	} else {
		end()
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{`{"mcpServers":{"a":{"command":"x"}}}`, `[{"name":"a","type":"sse","server_parameters":{"url":"u"}}]`, `{"inputs":[{"id":"a","type":"pickString","options":["a",{"label":"l","value":"v"}]}]}`, "a: {command: [1]}"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := Parse("f", data)
		if err != nil {
			return
		}
		for _, s := range file.Servers {
			if _, err := s.public(true); err != nil {
				t.Errorf("%s cannot be shown: %v", s.Name, err)
			}
		}
	})
}

// A cancellation that overtakes its call holds for it; one for a call that is
// over, or long ago, does not.
func TestCancelBeforeCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := New(Options{Name: "c"})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close(t.Context())
		call := func(id string) string {
			return string(c.Call(t.Context(), smcp.ToolCall{Call: smcp.Call{ReqID: id}, ToolName: "none"}))
		}
		cancelled := func(r string) bool { return strings.Contains(r, `"a2c_cancelled":true`) }
		if c.Cancel("1") {
			t.Error("a call that there is not was cancelled")
		}
		if r := call("1"); !cancelled(r) {
			t.Errorf("overtaken: %s", r)
		}
		c.Cancel("1")
		if r := call("1"); cancelled(r) {
			t.Errorf("the id of a call that is over, again: %s", r)
		}
		c.Cancel("2")
		time.Sleep(cancelLead + time.Millisecond)
		if r := call("2"); cancelled(r) {
			t.Errorf("long after: %s", r)
		}
		for i := range 10 * maxEarly {
			c.Cancel("of another " + strconv.Itoa(i))
		}
		if len(c.ledger.early) > maxEarly {
			t.Errorf("%d are remembered", len(c.ledger.early))
		}
	})
}

// TestSecretsOfServers: what a server says of itself, and its errors, leave the
// Computer without the secrets of its entry, wherever in the entry they stand.
func TestSecretsOfServers(t *testing.T) {
	c, err := New(Options{Name: "c"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	f, err := Parse("f", []byte(`{"mcpServers":{
		"a":{"command":"x","args":["--token","from-args"],"env":{"PROJECT":"production","API_KEY":"from-env"}},
		"b":{"url":"https://h/s/Zk3x9QpL0vT7mN2bQ8/mcp?apiKey=from-query","headers":{"X":"from-header-1"}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range f.Servers {
		if _, err := c.inputs.render(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	const said = "from-args from-env Zk3x9QpL0vT7mN2bQ8 from-query from-header-1 production"
	if got := c.inputs.redact(said + " ZnJvbS1hcmdz"); strings.Contains(got, "from-") || strings.Contains(got, "Zk3") || strings.Contains(got, "production") || strings.Contains(got, "ZnJvb") {
		t.Errorf("an error tells %q", got)
	}
	l := c.inputs.concealed(primitive.Listing{Tools: []json.RawMessage{json.RawMessage(`{"name":"t","description":"` + said + `"}`)}})
	if got := string(l.Tools[0]); strings.Contains(got, "from-") || strings.Contains(got, "Zk3") || !strings.Contains(got, "production") {
		t.Errorf("a description tells %s", got)
	}
}
