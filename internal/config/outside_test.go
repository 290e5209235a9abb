package config

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestOutside: what a program prints and a file has stands wherever a variable can, is known to be a
// secret, and a failure is a problem of its server alone.
func TestOutside(t *testing.T) {
	t.Parallel()
	const token, mounted = "the token of op", "the mounted token"
	var ran []string
	opts := Options{
		Dir:       "/conf",
		LookupEnv: func(name string) (string, bool) { return "a b", name == "ITEM" },
		Inputs: func(in Input) (string, bool, error) {
			if in.Type != InputCommand || !in.Password {
				t.Errorf("asked for %+v", in)
			}
			ran = append(ran, strings.Join(append([]string{in.Command}, in.Args...), "|"))
			switch in.Command {
			case "op", filepath.Join("/conf", "bin", "op"):
				return token, true, nil
			case "locked":
				return "", false, errors.New("locked failed: no session for " + token)
			case "long":
				return strings.Repeat("x", MaxOutside+1), true, nil
			}
			return "", true, nil
		},
		ReadFile: func(path string) ([]byte, error) {
			switch filepath.ToSlash(path) {
			case "/conf/run/token", "/run/a b":
				return []byte(mounted + "\r\n"), nil
			case "/run/binary":
				return []byte("a\x00b"), nil
			}
			return nil, fs.ErrNotExist
		},
	}
	c := parse(t, `
mcpServers:
  good:
    url: https://mcp.example/mcp
    headers: {Authorization: 'Bearer ${exec:op read "op://vault/an item/${ITEM}" :-x}', Again: '${exec:op  read ''op://vault/an item/${ITEM}'' :-x}', B: "${exec:bin/op}"}
  file: {command: x, args: ["--key=${file:run/token}"], env: {T: "${file:/run/${ITEM}}"}}
  locked: {command: x, env: {A: "${exec:op}", T: "${exec:locked now}"}}
  again: {command: x, env: {T: "${exec:locked now}"}}
  silent: {command: x, env: {T: "${exec:silent}"}}
  long: {command: x, env: {T: "${exec:long}"}}
  quote: {command: x, env: {T: "${exec:op 'a}"}}
  none: {command: x, env: {T: "${exec: }"}}
  nested: {command: x, env: {T: "${exec:op ${file:run/token}}"}}
  missing: {command: x, env: {T: "${file:/run/missing}"}}
  binary: {command: x, env: {T: "${file:/run/binary}"}}
  off: {disabled: true, command: "${exec:never}"}
  spare: {command: x, env: {T: "${ITEM:-${exec:never}}"}}
`, opts)
	good, _ := c.Server("good")
	if got := good.Headers["Authorization"].Reveal(); got != "Bearer "+token || good.Headers["B"].Reveal() != token {
		t.Errorf("%q, %q", got, good.Headers["B"].Reveal())
	}
	file, _ := c.Server("file")
	if got := file.Args[0]; got != "--key="+mounted || file.Env["T"].Reveal() != mounted {
		t.Errorf("%q, %q", got, file.Env["T"].Reveal())
	}
	for _, secret := range []string{token, mounted} {
		if !slices.Contains(c.Secrets(), secret) || !slices.Contains(c.Credentials(), secret) {
			t.Errorf("%q is no secret", secret)
		}
	}
	// Each command runs once, whatever fails.
	want := []string{"op|read|op://vault/an item/a b|:-x", filepath.Join("/conf", "bin", "op"), "op", "locked|now", "silent", "long"}
	if !slices.Equal(ran, want) {
		t.Errorf("ran %q, want %q", ran, want)
	}
	for name, want := range map[string]string{
		"good": "", "file": "", "off": "", "spare": "",
		"locked": `mcpServers.locked.env.T: ${exec:locked now}: locked failed: no session for [redacted]`,
		"again":  "locked failed: no session for [redacted]",
		"silent": `${exec:silent}: it is empty`, "long": "it has more than 64 KB", "quote": "the command has a ' without another one",
		"none": "it names no command", "nested": `${file:run/token} cannot stand in another reference`,
		"missing": `${file:/run/missing}: there is no such file`, "binary": "it is not text in UTF-8",
	} {
		if s, _ := c.Server(name); !strings.Contains(s.Fault(), want) || want == "" && s.Faulty() {
			t.Errorf("%s: %q, want %q", name, s.Fault(), want)
		}
	}
	var told []string
	_, _, err := Parse("weir.yaml", []byte(`mcpServers: {a: {command: "$${exec:x} ${A:-${exec:y ${B:-${file:z}}}}"}, off: {disabled: true, command: "${exec:w}"}}`), Options{Outside: func(ref string) { told = append(told, ref) }})
	if want := []string{"${exec:x}", "${exec:y ${B:-${file:z}}}", "${file:z}"}; err != nil || !slices.Equal(told, want) {
		t.Errorf("told of %q, want %q; %v", told, want, err)
	}
	if s := parse(t, `mcpServers: {a: {command: "${exec:x}"}, b: {command: "${file:/x}"}, c: {command: "${file:x}"}}`, Options{}).Servers; !strings.Contains(s[0].Fault(), "programs are not run here") || !strings.Contains(s[1].Fault(), "files are not read here") {
		t.Errorf("%q, %q", s[0].Fault(), s[1].Fault())
	}
}

func TestWords(t *testing.T) {
	t.Parallel()
	for line, want := range map[string][]string{
		`op read op://a/b`:                     {"op", "read", "op://a/b"},
		` "C:\Program Files\op.exe"  a\b\ c`:   {`C:\Program Files\op.exe`, `a\b\`, "c"},
		`pass '' "it's" 'say "x"' a"b c"d`:     {"pass", "", "it's", `say "x"`, "ab cd"},
		"vault\tkv get -field=token\nsecret/a": {"vault", "kv", "get", "-field=token", "secret/a"},
		`'a`:                                   nil, `x "`: nil, "": nil, " \t": nil, `"" x`: nil,
	} {
		got, err := words(line)
		if !slices.Equal(got, want) || (err != nil) != (want == nil) {
			t.Errorf("%q: %q, %v, want %q", line, got, err, want)
		}
	}
}

// TestAskAgain: a program is asked again when a server that uses its answer has failed, with growing
// pauses; an answer that cannot be had leaves the server as it was, and is tried for again.
func TestAskAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const text = "mcpServers: {a: {command: x, env: {T: '${exec:op}'}}, b: {command: x, env: {T: '${exec:other}'}}}"
		var mu sync.Mutex // guards below
		answers, ran := map[string]string{"op": "one", "other": "else"}, 0
		opts := Options{Inputs: func(in Input) (string, bool, error) {
			mu.Lock()
			defer mu.Unlock()
			if in.Command == "op" {
				ran++
			}
			if answers[in.Command] == "" {
				return "", false, errors.New("the vault is closed")
			}
			return answers[in.Command], true, nil
		}}
		current := parse(t, text, opts)
		failed := make(chan string)
		opts.Failed = failed
		var said []string
		w := &watch{current: current, opts: opts, last: current.sum, seen: current.resolved.outside, read: func(string) ([]byte, error) { return []byte(text), nil }}
		ctx, cancel := context.WithCancel(t.Context())
		w.start = func(run func(context.Context)) context.CancelFunc {
			ctx, cancel := context.WithCancel(ctx)
			go run(ctx)
			return cancel
		}
		w.fn = func(c *Config, warnings []Warning, err error) {
			mu.Lock()
			defer mu.Unlock()
			a, _ := c.Server("a")
			said = append(said, a.Env["T"].Reveal())
			for _, warning := range warnings {
				said = append(said, warning.Message)
			}
		}
		go w.failures(ctx)
		look := func(what string, runs int, want ...string) {
			t.Helper()
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			if ran != runs || !slices.Equal(said, want) {
				t.Errorf("%s: ran %d times and said %q, want %d and %q", what, ran, said, runs, want)
			}
			ran, said = 0, nil
		}
		tell := func(server string) { failed <- server; synctest.Wait() }
		answer := func(text string) {
			mu.Lock()
			defer mu.Unlock()
			answers["op"] = text
		}
		look("the first reading", 1)
		tell("b")
		look("another server failed", 0, "one")
		tell("nobody")
		look("an unknown server failed", 0)
		tell("a")
		look("the server failed", 1, "one")
		tell("a")
		time.Sleep(renewPause - time.Second)
		tell("a")
		look("in the pause", 0)
		time.Sleep(time.Second)
		tell("a")
		look("after the pause", 1, "one")
		time.Sleep(2 * renewPause)
		answer("two")
		tell("a")
		look("the secret is another", 1, "two")
		tell("a")
		look("at once after that", 0)
		time.Sleep(renewPause)
		answer("")
		tell("a")
		const kept = `mcpServers.a.env.T: ${exec:op}: the vault is closed; the server "a" keeps running as it was configured before`
		look("the vault is closed", 1, "two", kept)
		time.Sleep(retryPause)
		look("still closed", 1, "two", kept)
		answer("three")
		time.Sleep(2 * retryPause)
		look("open again", 1, "three")
		time.Sleep(time.Hour)
		look("later", 0)
		cancel()
		synctest.Wait()
	})
}

// TestWatchMounted: a mounted secret that is exchanged as Kubernetes does, and one whose folder comes
// later, change their servers.
func TestWatchMounted(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("links need rights on Windows")
	}
	dir := t.TempDir()
	mount := func(value string) {
		t.Helper()
		next, err := os.MkdirTemp(dir, "..v")
		must(t, err)
		put(t, filepath.Join(next, "token"), []byte(value+"\n"))
		must(t, os.Symlink(filepath.Base(next), filepath.Join(dir, "..data~")))
		must(t, os.Rename(filepath.Join(dir, "..data~"), filepath.Join(dir, "..data")))
	}
	mount("one")
	must(t, os.Symlink(filepath.Join("..data", "token"), filepath.Join(dir, "token")))
	path := put(t, filepath.Join(t.TempDir(), "weir.yaml"), []byte("mcpServers: {a: {command: x, env: {A: '${file:"+dir+"/token}', B: '${file:later}'}}}"))
	opts := System()
	current, _, err := Load(path, opts)
	must(t, err)
	if !strings.Contains(current.Servers[0].Fault(), `${file:later}: there is no such file`) {
		t.Fatalf("%q", current.Servers[0].Fault())
	}
	ctx, cancel := context.WithCancel(t.Context())
	seen, ended := make(chan string, 100), make(chan error, 1)
	go func() {
		ended <- Watch(ctx, current, opts, func(next *Config, _ []Warning, err error) {
			if err == nil && !next.Servers[0].Faulty() {
				seen <- next.Servers[0].Env["A"].Reveal()
			}
		})
	}()
	put(t, filepath.Join(filepath.Dir(path), "later"), []byte("there"))
	for _, want := range []string{"one", "two", "three"} {
		for timeout := time.After(30 * time.Second); ; {
			select {
			case got := <-seen:
				if got != want {
					continue
				}
			case <-timeout:
				t.Fatalf("%q was not noticed", want)
			}
			break
		}
		mount(map[string]string{"one": "two", "two": "three", "three": "four"}[want])
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
