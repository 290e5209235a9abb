package config

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// settingsOf returns the settings of a text by their keys.
func settingsOf(t *testing.T, name, text string, opts Options) map[string]Setting {
	t.Helper()
	c, _, err := Parse(name, []byte(text), opts)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]Setting{}
	for _, one := range c.Settings() {
		if _, twice := all[one.Key]; twice {
			t.Errorf("%s is listed twice", one.Key)
		}
		all[one.Key] = one
	}
	return all
}

// TestSettings looks for the origin of each kind of value.
func TestSettings(t *testing.T) {
	opts := Options{
		Dir: "/etc/weir", Mode: ModeProxy,
		LookupEnv: func(name string) (string, bool) {
			value, ok := map[string]string{"REGION": "eu", "API_TOKEN": "tok", "HOME": "/home/ann"}[name]
			return value, ok
		},
		LookupSecret: func(string) (string, bool, error) { return "abc", true, nil },
		ReadFile:     func(string) ([]byte, error) { return []byte("EXTRA=from-the-file\nLOG_LEVEL=debug\n"), nil },
	}
	all := settingsOf(t, "weir.yaml", `listen: 127.0.0.1:9
mode: plain
inputs:
  - {id: pin, password: true, default: "1234"}
mcpServers:
  one:
    command: one
    args: [--region, "${REGION}", --token, abc, "--pin=${input:pin}", "${secret:SHORT}", "${userHome}/x"]
    env: {PATH: /bin, WORD: blue, T: "${API_TOKEN}"}
    env_file: extra.env
  two:
    url: https://ann:pw@example.com/mcp?api_key=0123456789abcdef
    headers: {Accept-Language: de, Authorization: "Bearer x"}
    disabled: true
hub: {}
`, opts)
	for key, want := range map[string]string{
		"listen":                                 "127.0.0.1:9 | weir.yaml:1",
		"mode":                                   "proxy | --mode",
		"auto_tokens":                            "3000 | default",
		"hub.enabled":                            "true | weir.yaml:15",
		"http.max_body_bytes":                    "10MB | default",
		"artifacts.ttl":                          "1h | default",
		"inputs[0].default":                      "*** | weir.yaml:4",
		"mcpServers.one.args":                    "[--region eu --token *** *** *** /home/ann/x] | weir.yaml:8, ${REGION}, ${input:pin}, ${secret:SHORT}, ${userHome}",
		"mcpServers.one.env.PATH":                "/bin | weir.yaml:9",
		"mcpServers.one.env.WORD":                "*** | weir.yaml:9",
		"mcpServers.one.env.T":                   "*** | weir.yaml:9, ${API_TOKEN}",
		"mcpServers.one.env.EXTRA":               "*** | /etc/weir/extra.env",
		"mcpServers.one.env.LOG_LEVEL":           "debug | /etc/weir/extra.env",
		"mcpServers.one.timeout":                 "1m | default",
		"mcpServers.one.namespace":               "one | default",
		"mcpServers.two.url":                     "https://ann:***@example.com/mcp?api_key=*** | weir.yaml:12",
		"mcpServers.two.disabled":                "true | weir.yaml:14",
		"mcpServers.two.headers.Accept-Language": "de | weir.yaml:13",
		"mcpServers.two.headers.Authorization":   "*** | weir.yaml:13",
	} {
		one, ok := all[key]
		if got := fmt.Sprint(one.Value, " | ", one.Source("weir.yaml")); !ok || got != want {
			t.Errorf("%s: %s, want %s", key, got, want)
		}
	}
	for _, key := range []string{"public_url", "mcpServers.one.cwd", "mcpServers.one.url", "policy.rules"} {
		if one, ok := all[key]; ok {
			t.Errorf("%s has no value and is listed: %v", key, one)
		}
	}
}

// TestSettingsHide: secrets are hidden wherever they stand, also short ones.
func TestSettingsHide(t *testing.T) {
	all := settingsOf(t, "weir.yaml", `store: "nats://ann:zz1@h1:4222,nats://bob:zz2@h2:4222"
cluster: {name: x, key: 0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef, listen: "127.0.0.1:1"}
mcpServers:
  a: {url: "https://ann:p@zz@example.com/mcp?token=zz&page=1#access_token=zz"}
  b: {command: docker, args: [run, -e, API_KEY=zz, --dsn=postgres://u:z@zz@db/x, "https://example.com/?api_key=zz"]}
`, System())
	for key, want := range map[string]string{
		"store.at":          "nats://ann:***@h1:4222,nats://bob:***@h2:4222",
		"cluster.key":       "***",
		"mcpServers.a.url":  "https://ann:***@example.com/mcp?token=***&page=1#access_token=***",
		"mcpServers.b.args": "[run -e API_KEY=*** --dsn=*** https://example.com/?api_key=***]",
	} {
		if got := fmt.Sprint(all[key].Value); got != want {
			t.Errorf("%s: %s, want %s", key, got, want)
		}
	}
}

// TestSettingsOfAllKeys reads the file in which each key is set: each is listed with its line, and no
// secret of the file is.
func TestSettingsOfAllKeys(t *testing.T) {
	data, err := os.ReadFile("testdata/all-keys.case")
	if err != nil {
		t.Fatal(err)
	}
	text := splitCase(t, string(data)).text
	opts := System()
	opts.Dir, opts.ReadFile = "/etc/weir", func(string) ([]byte, error) { return []byte("# empty"), nil }
	opts.Inputs = func(Input) (string, bool, error) { return "a", true, nil }
	c, _, err := Parse("weir.yaml", []byte(text), opts)
	if err != nil {
		t.Fatal(err)
	}
	listed := c.Settings()
	for path := range c.origins.lines {
		below := func(s Setting) bool {
			return s.Key == path && s.Line == c.origins.lines[path] || strings.HasPrefix(s.Key, path+".") || strings.HasPrefix(s.Key, path+"[")
		}
		if !slices.ContainsFunc(listed, below) {
			t.Errorf("%s is set and not listed", path)
		}
	}
	for _, one := range listed {
		shown := fmt.Sprint(one.Value)
		for _, secret := range append(c.Secrets(), "0123456789abcdef", "AAAABBBB", "pass-word") {
			if strings.Contains(shown, secret) {
				t.Errorf("%s shows the secret %q: %s", one.Key, secret, shown)
			}
		}
	}
}
