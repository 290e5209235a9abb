package config

import (
	"io/fs"
	"maps"
	"strings"
	"testing"
)

func TestEnvFile(t *testing.T) {
	files := map[string]string{
		"/etc/weir/.env":    "\ufeff# keys\nexport API_KEY='sk-0123456789abcdef' # mine\nPORT=8080 # not 80\r\nWORDS=\"two\\nlines \\\"x\\\"\"\nEMPTY=\nHASH=a#b\nKEPT=file\n",
		"/etc/weir/bad.env": "A=1\nsecret-value-0123456789\n",
	}
	opts := Options{
		Dir:       "/etc/weir",
		LookupEnv: func(string) (string, bool) { return "", false },
		ReadFile: func(path string) ([]byte, error) {
			text, ok := files[path]
			if !ok {
				return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
			}
			return []byte(text), nil
		},
	}
	read := func(name, text string) (*Config, []Warning) {
		t.Helper()
		c, warnings, err := Parse(name, []byte(text), opts)
		if err != nil {
			t.Fatal(err)
		}
		return c, warnings
	}

	c, _ := read("weir.yaml", "mcpServers: {a: {command: a, env_file: .env, env: {KEPT: entry}}}")
	got := map[string]string{}
	for name, value := range c.Servers[0].Env {
		got[name] = value.Reveal()
	}
	want := map[string]string{"API_KEY": "sk-0123456789abcdef", "PORT": "8080", "WORDS": "two\nlines \"x\"", "EMPTY": "", "HASH": "a#b", "KEPT": "entry"}
	if !maps.Equal(got, want) {
		t.Errorf("env is %q, want %q", got, want)
	}
	if secrets := strings.Join(c.Secrets(), " "); !strings.Contains(secrets, "sk-0123456789abcdef") {
		t.Errorf("the key of the file is no secret: %q", secrets)
	}

	files["/etc/weir/.env"] = "API_KEY=sk-fedcba9876543210\n"
	after, _ := read("weir.yaml", "mcpServers: {a: {command: a, env_file: .env, env: {KEPT: entry}}}")
	if change := Diff(c, after); len(change.Changed) != 1 {
		t.Errorf("a changed env_file changes %+v", change)
	}

	c, _ = read("mcp.json", `{"servers": {"a": {"command": "a", "envFile": "/etc/weir/.env"}}}`)
	if c.Servers[0].Env["API_KEY"].Reveal() == "" {
		t.Error("VS Code's envFile is not read")
	}

	for text, fault := range map[string]string{
		"{command: a, env_file: none.env}":                   "there is no such file; create the file",
		"{command: a, env_file: bad.env}":                    "line 2 is not NAME=value",
		"{command: a, env_file: ''}":                         "env_file is empty",
		"{url: 'https://example.com/mcp', env_file: '.env'}": "has no effect without",
	} {
		c, _ := read("weir.yaml", "mcpServers: {a: "+text+"}")
		if s := c.Servers[0]; len(s.Problems) != 1 || !strings.Contains(s.Problems[0].Message, fault) {
			t.Errorf("%s: problems %v, want %q", text, s.Problems, fault)
		} else if strings.Contains(s.Problems[0].Message, "secret-value") {
			t.Errorf("%s: the message shows the file: %s", text, s.Problems[0].Message)
		}
	}
}

func TestUnclosedQuotesOfEnvFiles(t *testing.T) {
	for _, text := range []string{"A='b", `A="b`, `A="b" c`, "A='b' c", "a b=c", "=c", "A"} {
		if got, err := ParseEnvFile([]byte(text)); err == nil {
			t.Errorf("%q gives %q, want an error", text, got)
		}
	}
}
