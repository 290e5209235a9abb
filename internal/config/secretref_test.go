package config

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestSecretReferences: a secret stands wherever a variable can, is known to be one, and what is
// missing is a problem of its server alone.
func TestSecretReferences(t *testing.T) {
	opts := Options{LookupSecret: func(name string) (string, bool, error) {
		switch name {
		case "LOCKED":
			return "", false, errors.New("the keyring is locked")
		case "TOKEN", "plain_words", "WEIR_CREDENTIALS_KEY":
			return "value of " + name + " ${HOME}", true, nil
		}
		return "", false, nil
	}}
	const text = `
hubs: {far: {url: "https://hub.example/u", office: o, token: "${secret:TOKEN}"}}
mcpServers:
  good: {command: x, args: ["--with=${secret:plain_words}"], env: {A: "Bearer ${secret:TOKEN}", B: "$${secret:TOKEN}"}}
  missing: {url: "https://mcp.example/mcp", headers: {Authorization: "Bearer ${secret:GITHUB_TOKEN}"}}
  locked: {command: "x-${secret:LOCKED}"}
  wrong: {command: "x-${secret:a b}"}
  off: {disabled: true, command: "${secret:ALSO_MISSING}"}
  sealing: {command: x, env: {T: "${NONE:-${secret:WEIR_CREDENTIALS_KEY}}"}}
`
	c, _, err := Parse("weir.yaml", []byte(text), opts)
	if err != nil {
		t.Fatal(err)
	}
	good := c.Servers[0]
	if got, want := good.Args[0], "--with=value of plain_words ${HOME}"; got != want { // What is put in is not expanded.
		t.Errorf("args: %q, want %q", got, want)
	}
	if got, want := good.Env["A"].Reveal(), "Bearer value of TOKEN ${HOME}"; got != want {
		t.Errorf("env: %q, want %q", got, want)
	}
	if got, want := good.Env["B"].Reveal(), "${secret:TOKEN}"; got != want {
		t.Errorf("escaped: %q, want %q", got, want)
	}
	for _, list := range [][]string{c.Secrets(), c.Credentials()} {
		for _, name := range []string{"plain_words", "TOKEN"} {
			if !slices.Contains(list, "value of "+name+" ${HOME}") {
				t.Errorf("the value of %s is not in %q", name, list)
			}
		}
	}
	for name, want := range map[string]string{
		"missing": "mcpServers.missing.headers.Authorization: the secret GITHUB_TOKEN is not stored; store it with: weir secret set GITHUB_TOKEN",
		"locked":  "mcpServers.locked.command: the secret LOCKED cannot be read: the keyring is locked",
		"wrong":   `mcpServers.wrong.command: "${secret:a b}" names no secret`,
		"sealing": "mcpServers.sealing.env.T: the secret WEIR_CREDENTIALS_KEY seals all sign-ins of weir and goes to no server",
		"good":    "", "off": "",
	} {
		s, ok := c.Server(name)
		if !ok || !strings.Contains(s.Fault(), want) || want == "" && s.Faulty() {
			t.Errorf("%s: %q, want %q", name, s.Fault(), want)
		}
	}
	if c, _, err = Parse("weir.yaml", []byte("mcpServers: {a: {command: '${secret:A}'}}"), Options{}); err != nil || !strings.Contains(c.Servers[0].Fault(), "no store of secrets") {
		t.Errorf("without a store: %v, %v", c, err)
	}
	// A person who moves the sign-ins into a folder takes their key along.
	if c, _, err = Parse("weir.yaml", []byte("credentials: {store: 'file:creds', keys: ['${secret:WEIR_CREDENTIALS_KEY}']}"), opts); err != nil || len(c.SignIns.Keys) != 1 {
		t.Errorf("the key of sign-ins: %v", err)
	}
}

// TestWatchSecrets: a secret that is stored while weir runs changes its server, also if the folder of
// the secrets was not there.
func TestWatchSecrets(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "config", "weir", "secrets.yaml")
	read := func() (string, bool, error) {
		data, err := os.ReadFile(file)
		return string(data), err == nil, nil
	}
	opts := System()
	opts.SecretsFile = file
	opts.LookupSecret = func(string) (string, bool, error) { return read() }
	path := put(t, filepath.Join(dir, "weir.yaml"), []byte("mcpServers: {a: {command: x, env: {A: '${secret:A}'}}, b: {command: y}}"))
	current, _, err := Load(path, opts)
	if err != nil || !current.Servers[0].Faulty() {
		t.Fatalf("%v, %v", current, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	seen, ended := make(chan string, 100), make(chan error, 1)
	go func() {
		ended <- Watch(ctx, current, opts, func(next *Config, _ []Warning, err error) {
			if err != nil {
				seen <- err.Error()
				return
			}
			a, _ := next.Server("a")
			seen <- a.Env["A"].Reveal() + a.Fault()
		})
	}()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	for timeout := time.After(30 * time.Second); ; {
		if _, err := os.Stat(filepath.Dir(file)); err == nil {
			break
		}
		select {
		case <-time.After(time.Millisecond):
		case <-timeout:
			t.Fatal("the folder of the secrets is not made")
		}
	}
	for _, value := range []string{"one", "two"} {
		put(t, file, []byte(value))
		for timeout := time.After(30 * time.Second); ; {
			select {
			case got := <-seen:
				if got != value {
					continue
				}
			case <-timeout:
				t.Fatalf("%q was not noticed", value)
			}
			break
		}
	}
}

// TestWatchWithoutSecrets: the file of the secrets does not matter to a configuration that names
// none, and a folder that cannot be watched does not end the watch of the configuration.
func TestWatchWithoutSecrets(t *testing.T) {
	dir := t.TempDir()
	opts := System()
	opts.SecretsFile = put(t, filepath.Join(dir, "secrets.yaml"), []byte("one"))
	plain := []byte("mcpServers: {a: {command: x}}")
	before := opts.Sum(plain)
	put(t, opts.SecretsFile, []byte("two"))
	if opts.Sum(plain) != before {
		t.Error("a secret changes a configuration that names none")
	}
	opts.SecretsFile = filepath.Join(put(t, filepath.Join(dir, "file"), nil), "below", "secrets.yaml")
	opts.LookupSecret = func(string) (string, bool, error) { return "v", true, nil }
	path := put(t, filepath.Join(dir, "weir.yaml"), []byte("mcpServers: {a: {command: x, env: {A: '${secret:A}'}}}"))
	current, _, err := Load(path, opts)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	seen, ended := make(chan string, 100), make(chan error, 1)
	go func() {
		ended <- Watch(ctx, current, opts, func(next *Config, warnings []Warning, _ error) {
			text := next.Servers[0].Command
			for _, w := range warnings {
				text += " " + w.Message
			}
			seen <- text
		})
	}()
	if got := <-seen; !strings.HasPrefix(got, "x changes of secrets are not seen") {
		t.Errorf("%q", got)
	}
	put(t, path, []byte("mcpServers: {a: {command: y, env: {A: '${secret:A}'}}}"))
	if got := <-seen; got != "y" {
		t.Errorf("%q", got)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
