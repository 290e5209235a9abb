package agentserver

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/json/strict"
)

func parse(t *testing.T, name, text string) (*Config, error) {
	t.Helper()
	return ParseConfig(filepath.Join(t.TempDir(), name), []byte(text), ConfigOptions{LookupEnv: testEnv})
}

// What the public implementation's mcp-config.json may hold is read.
func TestPublicConfig(t *testing.T) {
	c, err := parse(t, "mcp-config.json", `{
	"maxParallelTasks": 4,
	"taskLogTailBytes": 1000,
	"tools": [
		{"name": "count", "title": "Count", "description": "Counts", "command": ["sh", "count.sh"], "cwd": "workspace",
		 "inputSchema": {"n": {"type": "number", "min": 1, "description": "how many"}, "unit": {"type": "string", "optional": true, "enum": ["a", "b"]}}},
		{"name": "run", "description": "Runs", "command": "sh", "async": true, "timeout": 5000, "input": {"type": "object", "properties": {"x": {"type": "string"}}}}
	],
	"resources": [{"name": "state", "uri": "state://now", "description": "State", "command": "date"}],
	"prompts": [{"name": "short", "messages": [{"role": "system", "content": "Be short."}, {"role": "user", "content": "${input}"}]}]
}`)
	if err != nil {
		t.Fatal(err)
	}
	if c.Concurrency != 4 || c.Queue.LogBytes != 1000 || len(c.Tools) != 2 || len(c.Resources) != 1 || len(c.Prompts) != 1 {
		t.Fatalf("read %+v", c)
	}
	count := c.Tools[0]
	want := `{"type":"object","properties":{"n":{"description":"how many","minimum":1,"type":"number"},"unit":{"enum":["a","b"],"type":"string"}},"required":["n"]}`
	if string(count.InputSchema) != want {
		t.Errorf("schema %s", count.InputSchema)
	}
	if cmd := count.run.(*command); cmd.path != "sh" || !slices.Equal(cmd.args, []string{"count.sh"}) {
		t.Errorf("command %+v", cmd)
	}
	if run := c.Tools[1]; !run.Async || run.Timeout != 5*time.Second || string(run.InputSchema) != `{"type":"object","properties":{"x":{"type":"string"}}}` {
		t.Errorf("run %+v", run)
	}
	if p := c.Prompts[0]; len(p.Arguments) != 1 || p.Arguments[0].Name != "input" || p.Messages[0].Role != "user" {
		t.Errorf("prompt %+v", p)
	}
	notes := strings.Join(c.Notes, "\n")
	for _, want := range []string{`tool "count": inputSchema read as a map of fields`, `tool "run": inputSchema read as JSON Schema`, "role system"} {
		if !strings.Contains(notes, want) {
			t.Errorf("the notes lack %q: %s", want, notes)
		}
	}
}

// The rest of a text that YAML cuts at its comma is a key without a value.
func TestConfigWarnsOfCommas(t *testing.T) {
	c, err := parse(t, "agent.yaml", `
tools:
  - name: count
    command: 'true'
    inputSchema:
      type: object
      properties: {sku: {type: string, description: The article's number, such as BIK-001.}}
  - name: good
    command: 'true'
    inputSchema:
      type: object
      properties: {sku: {type: [string, "null"], default: null, description: "Its number, such as 1."}, any: {}, text: ""}
`)
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Warnings) != 1 || !strings.Contains(c.Warnings[0], "agent.yaml:7:") || !strings.Contains(c.Warnings[0], `tools[0].inputSchema has the key "such as BIK-001." without a value`) ||
		!strings.Contains(c.Warnings[0], "quote the text") {
		t.Errorf("warnings: %q", c.Warnings)
	}
}

// TestExamplesHaveNoWarnings: the agents of examples/agents are as their texts say.
func TestExamplesHaveNoWarnings(t *testing.T) {
	for _, name := range []string{"stock.yaml", "planner.yaml"} {
		data, err := os.ReadFile(filepath.Join("../examples/agents", name))
		if err != nil {
			t.Fatal(err)
		}
		if c, err := parse(t, name, string(data)); err != nil || len(c.Warnings) > 0 {
			t.Errorf("%s: %v, %+v", name, err, c)
		}
	}
}

func TestConfigYAML(t *testing.T) {
	c, err := parse(t, "agent.yaml", `
name: demo
version: "1.2"
instructions: Ask me.
concurrency: 2
timeoutMs: 5000
queue: {max: 9, store: "file:tasks", results: 5, resultBytes: 2MB, retain: 30m, logTailBytes: 99}
skills: skills
tools:
  - name: all
    description: Everything
    command: ./bin/tool
    args: [-v, 2, true]
    cwd: sub
    env: {KEY: "${SECRET}!", OTHER: "${env:HOME}", N: 1}
    timeoutMs: 100
    priority: 3
    maxOutputBytes: 1KB
    maxMemoryBytes: 64MB
    annotations: {readOnlyHint: true}
    inputSchema: {type: object, properties: {big: {type: integer, maximum: 12345678901234567890}}}
`)
	if err != nil {
		t.Fatal(err)
	}
	q := c.Queue
	if c.Name != "demo" || c.Version != "1.2" || c.Concurrency != 2 || c.Timeout != 5*time.Second || q.Max != 9 || !strings.HasPrefix(q.Store, "file:/") || q.RetainCount != 5 || q.RetainBytes != 2<<20 || q.RetainAge != 30*time.Minute || q.LogBytes != 99 {
		t.Errorf("read %+v", c)
	}
	tool := c.Tools[0]
	cmd := tool.run.(*command)
	if !filepath.IsAbs(cmd.path) || filepath.Base(cmd.dir) != "sub" || !slices.Equal(cmd.args, []string{"-v", "2", "true"}) || cmd.maxOutput != 1024 || cmd.maxMemory != 64<<20 {
		t.Errorf("command %+v", cmd)
	}
	home, _ := testEnv("HOME")
	for _, want := range []string{"KEY=hunter2!", "OTHER=" + home, "N=1"} {
		if !slices.Contains(cmd.env, want) {
			t.Errorf("env %v lacks %s", cmd.env, want)
		}
	}
	if slices.ContainsFunc(cmd.env, func(e string) bool { return strings.HasPrefix(e, "SECRET=") }) {
		t.Error("a variable that the entry does not name got there")
	}
	if tool.Timeout != 100*time.Millisecond || tool.Priority != 3 || string(tool.Annotations) != `{"readOnlyHint":true}` || !strings.Contains(string(tool.InputSchema), "12345678901234567890") {
		t.Errorf("tool %+v", tool)
	}
	if empty, err := parse(t, "agent.yaml", ""); err != nil || len(empty.Tools) != 0 {
		t.Errorf("empty: %v, %v", empty, err)
	}
}

// The default configuration of agent servers is one.
func TestDefaultKeys(t *testing.T) {
	c, err := parse(t, "agent.json", `{"port": 7000, "concurrency": 1, "timeout": 30000, "maxRequestSize": "10mb"}`)
	if err != nil {
		t.Fatal(err)
	}
	if c.Port != 7000 || c.Concurrency != 1 || c.Timeout != 30*time.Second || c.MaxBody != 10<<20 {
		t.Errorf("%+v", c)
	}
}

// Each mistake is told with its line, and with what to write in its place.
func TestConfigMistakes(t *testing.T) {
	for _, c := range []struct {
		name, text string
		line       int
		want       string
	}{
		{"unknown key", "tools:\n  - {name: a, comand: 'true'}", 2, `unknown key "comand" in tools[0]; did you mean "command"?`},
		{"unknown at the top", "\ntool: []", 2, `unknown key "tool"; did you mean "tools"?`},
		{"another's name", "tools:\n  - {name: a, command: 'true', parameters: {}}", 2, `did you mean "inputSchema"?`},
		{"nothing near", "zzzzzz: 1", 1, "known keys: "},
		{"arguments in command", "tools:\n  - name: a\n    command: node 'my script.js' --fast", 3, `tool "a": the command "node 'my script.js' --fast" holds arguments; write command: "node", args: ["my script.js", "--fast"]`},
		{"arguments in both", "tools:\n  - {name: a, command: git log, args: [-n1]}", 2, `write command: "git", args: ["log", "-n1"]`},
		{"a resource's too", "resources:\n  - {name: a, uri: 'a://b', command: cat file}", 2, `resource "a": the command "cat file" holds arguments`},
		{"no command", "tools:\n  - {name: a}", 2, `tool "a" needs a command`},
		{"no name", "tools:\n  - {command: 'true'}", 2, "tools[0] needs a name"},
		{"bad name", "tools:\n  - {name: a b, command: 'true'}", 2, "letters, digits"},
		{"twice", "tools:\n  - {name: a, command: 'true'}\n  - {name: a, command: 'true'}", 3, `tool "a" is there already, at line 2`},
		{"key twice", "name: a\nversion: 1\nname: b", 3, `duplicate key "name"; it is set on line 1 already`},
		{"not a list", "tools: {a: 1}", 1, "tools must be a list of mappings, not a mapping"},
		{"not a number", "concurrency: many", 1, `concurrency must be a whole number, not the text "many"`},
		{"no port", "port: 70000", 1, "port must be from 1 to 65535, not 70000"},
		{"no size", "maxRequestSize: much", 1, `a size such as "10MB"`},
		{"not from 1 on", "concurrency: 0", 1, "concurrency must be at least 1"},
		{"not a flag", "tools:\n  - {name: a, command: 'true', async: maybe}", 2, "must be true or false"},
		{"not a time", "timeoutMs: 30s", 1, "a number of milliseconds"},
		{"not a size", "queue: {resultBytes: big}", 1, `a size such as "10MB"`},
		{"bad retain", "queue: {retain: long}", 1, "a time such as 1h"},
		{"bad store", "queue: {store: redis}", 1, `must be "memory", "file:FOLDER" or "nats://HOST"`},
		{"a group alone", "queue: {group: jobs}", 1, `set queue.store to the NATS server that keeps it`},
		{"shared without a group", "queue: {store: 'nats://a:4222'}", 1, "queue.group names the queue that the replicas share"},
		{"bad group", "queue: {store: 'nats://a:4222', group: a.b}", 1, "must be 1 to 64 letters, digits, - and _"},
		{"a file without NATS", "queue: {ca: ca.pem}", 1, "queue.ca is for the connection to NATS"},
		{"idempotent and not async", "tools:\n  - {name: a, command: 'true', idempotent: true}", 2, "idempotent is for tools with async: true"},
		{"bad agent name", "name: a/b", 1, "it stands in the URL"},
		{"no variable", "tools:\n  - {name: a, command: 'true', env: {K: '${NOT_SET}'}}", 2, "the variable NOT_SET is not set"},
		{"env no mapping", "tools:\n  - {name: a, command: 'true', env: [A=b]}", 2, "must be a mapping"},
		{"neither uri nor template", "resources:\n  - {name: a, command: 'true'}", 2, "needs either uri or template"},
		{"both", "resources:\n  - {name: a, uri: 'a://b', template: 'a://{b}', command: 'true'}", 2, "needs either uri or template"},
		{"no uri", "resources:\n  - {name: a, uri: nothing, command: 'true'}", 2, "begins with a scheme"},
		{"template without variable", "resources:\n  - {name: a, template: 'a://b', command: 'true'}", 2, "has no variable"},
		{"template broken", "resources:\n  - {name: a, template: 'a://{b', command: 'true'}", 2, "is none"},
		{"no messages", "prompts:\n  - {name: a}", 2, "needs messages, or a command"},
		{"both messages and command", "prompts:\n  - {name: a, command: 'true', messages: [{role: user, content: x}]}", 2, "keep one of them"},
		{"role", "prompts:\n  - name: a\n    messages:\n      - {role: robot, content: x}", 4, `must be "user" or "assistant", not "robot"`},
		{"no content", "prompts:\n  - name: a\n    messages:\n      - {role: user}", 4, "needs content"},
		{"field of unknown type", "tools:\n  - {name: a, command: 'true', inputSchema: {x: {type: strnig}}}", 2, `the field "x": the type "strnig" is not known`},
		{"field with unknown key", "tools:\n  - {name: a, command: 'true', inputSchema: {x: {type: string, minimum: 3}}}", 2, `the field "x": cannot be read: unknown field "minimum"`},
		{"JSON", "{\n  \"tools\": oops\n}", 2, "not valid JSON"},
	} {
		t.Run(c.name, func(t *testing.T) {
			name := "agent.yaml"
			if c.name == "JSON" {
				name = "mcp-config.json"
			}
			_, err := parse(t, name, c.text)
			var e *strict.Error
			if !errors.As(err, &e) {
				t.Fatalf("got %v", err)
			}
			p := e.Problems[0]
			if p.Line != c.line || !strings.Contains(p.Message, c.want) || filepath.Base(p.File) != name {
				t.Errorf("got %s", p)
			}
		})
	}
}

// A path with a space in it is no command with arguments.
func TestCommandWithSpace(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "my tool"), []byte("#!/bin/sh\necho ok\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	c, err := ParseConfig(filepath.Join(dir, "agent.yaml"), []byte("tools: [{name: a, command: ./my tool}, {name: b, command: my tool}]"), ConfigOptions{LookupEnv: testEnv})
	if err != nil {
		t.Fatal(err)
	}
	for _, tool := range c.Tools {
		if out, err := tool.run.run(t.Context(), &Call{Writer: &lines{}}); err != nil || string(out.text) != "ok\n" {
			t.Errorf("%s: %q, %v", tool.Name, out.text, err)
		}
	}
}

func TestFieldMaps(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{`{"a":{"type":"string","minLength":1,"maxLength":5,"pattern":"^a"}}`, `{"type":"object","properties":{"a":{"maxLength":5,"minLength":1,"pattern":"^a","type":"string"}},"required":["a"]}`},
		{`{"a":"string","b":"boolean"}`, `{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"boolean"}},"required":["a","b"]}`},
		{`{"a":{"type":"integer","optional":true}}`, `{"type":"object","properties":{"a":{"type":"integer"}}}`},
		{`{"a":{"type":"number","default":3}}`, `{"type":"object","properties":{"a":{"default":3,"type":"number"}}}`},
		{`{"a":{"type":"array","items":{"type":"number"},"minItems":1}}`, `{"type":"object","properties":{"a":{"items":{"type":"number"},"minItems":1,"type":"array"}},"required":["a"]}`},
		{`{"a":{"type":"string","isArray":true,"maxItems":2}}`, `{"type":"object","properties":{"a":{"items":{"type":"string"},"maxItems":2,"type":"array"}},"required":["a"]}`},
		{`{"a":{"type":"object","properties":{"b":{"type":"string"}},"additionalProperties":false}}`, `{"type":"object","properties":{"a":{"additionalProperties":false,"properties":{"b":{"type":"string"}},"required":["b"],"type":"object"}},"required":["a"]}`},
		{`{"a":{"type":"string","nullable":true}}`, `{"type":"object","properties":{"a":{"anyOf":[{"type":"string"},{"type":"null"}]}},"required":["a"]}`},
		{`{"type":{"type":"string"}}`, `{"type":"object","properties":{"type":{"type":"string"}},"required":["type"]}`},
		{`{"properties":{"type":"array"}}`, `{"type":"object","properties":{"properties":{"items":{"type":"string"},"type":"array"}},"required":["properties"]}`},
		{`{"a":{"type":"any"}}`, `{"type":"object","properties":{"a":{}},"required":["a"]}`},
		{`{"a":{}}`, `{"type":"object","properties":{"a":{"type":"string"}},"required":["a"]}`},
		// These are JSON Schema already.
		{`{"type":"object","properties":{"a":{"type":"string"}}}`, ""},
		{`{"properties":{"a":{"type":"string"}}}`, ""},
		{`{"type":"object"}`, ""},
		{`{"$ref":"#/$defs/x"}`, ""},
		{`{"anyOf":[{"type":"object"}]}`, ""},
		{`{"description":"anything"}`, ""},
		{`{}`, ""},
	} {
		if isFieldMap(json.RawMessage(c.in)) != (c.want != "") {
			t.Errorf("%s: read as a map of fields: %v", c.in, c.want == "")
			continue
		}
		if c.want == "" {
			continue
		}
		got, err := translateFields(json.RawMessage(c.in))
		if err != nil || string(got) != c.want {
			t.Errorf("%s: %s, %v", c.in, got, err)
		}
	}
}

func FuzzParseConfig(f *testing.F) {
	f.Add(basic)
	f.Add(`{"tools":[{"name":"a","command":"x y","inputSchema":{"a":{"type":"string"}}}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		c, err := ParseConfig("agent.yaml", []byte(text), ConfigOptions{})
		if (c == nil) == (err == nil) {
			t.Errorf("%v, %v", c, err)
		}
	})
}
