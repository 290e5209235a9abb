package agentserver

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/host/child"
	"github.com/weir-mcp/weir/internal/testkit/proctest"
)

// shell is a command that runs a script.
func shell(script string) *command {
	return &command{path: "sh", args: []string{"-c", script}, env: cleanEnv(&ConfigOptions{LookupEnv: testEnv}, nil)}
}

// lines is a log that a test reads.
type lines struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// pidIn reads a process id that a script has written.
func pidIn(t *testing.T, file string) (pid int) {
	t.Helper()
	eventually(t, "the script writes "+file, func() bool {
		data, err := os.ReadFile(file)
		if err != nil {
			return false
		}
		pid, err = strconv.Atoi(strings.TrimSpace(string(data)))
		return err == nil
	})
	return pid
}

func TestCommandOutcomes(t *testing.T) {
	big := strings.Repeat("x", 300_000)
	for _, c := range []struct {
		name, script, stdin string
		change              func(*command)
		out, json           string
		fails               string // part of the failure's message
		exit                int
		signal, reason      string
		log                 string
	}{
		{name: "text", script: "echo hello", out: "hello\n"},
		{name: "reads its line", script: "cat", stdin: "{\"a\":1}\n", out: "{\"a\":1}\n", json: `{"a":1}`},
		{name: "JSON with space around it", script: `echo; echo ' {"n": 12345678901234567890} '`, out: "\n {\"n\": 12345678901234567890} \n", json: `{"n": 12345678901234567890}`},
		{name: "a list is no object", script: "echo '[1]'", out: "[1]\n"},
		{name: "nearly JSON", script: `echo '{"a":'`, out: "{\"a\":\n"},
		{name: "nothing", script: "true"},
		{name: "does not read", script: "echo done", stdin: big, out: "done\n"},
		{name: "reads much", script: "wc -c | tr -d ' '", stdin: big, out: "300000\n"},
		{name: "prints much", script: "head -c 3000000 /dev/zero | tr '\\0' y | wc -c | tr -d ' '", out: "3000000\n"},
		{name: "stderr is the log", script: "echo one >&2; echo two >&2", log: "one\ntwo\n"},
		{name: "fails", script: "echo partial; echo 'no such thing' >&2; exit 3", fails: "no such thing", exit: 3, log: "no such thing\n"},
		{name: "fails silently", script: "exit 7", fails: "exit status 7", exit: 7},
		{name: "kills itself", script: "kill -9 $$", fails: "killed", exit: -1, signal: "killed"},
		{name: "closes stdout early", script: "exec >&-; echo late >&2; exit 4", fails: "late", exit: 4, log: "late\n"},
		{name: "closes stdout early and succeeds", script: "echo first; exec >&- 2>&-; sleep 0.05", out: "first\n"},
		{name: "is not there", change: func(c *command) { c.path = "no-such-program" }, fails: `"no-such-program" is not in PATH`, exit: 127},
		{name: "cannot run", change: func(c *command) { c.dir = "/no/such/folder" }, fails: "cannot be started", exit: 126},
		{name: "prints too much", script: "cat /dev/zero", change: func(c *command) { c.maxOutput = 1 << 20 }, fails: "more than 1048576 bytes", exit: -1, signal: "killed", reason: "output"},
		{name: "prints too much on stderr", script: "head -c 10000000 /dev/zero >&2; echo fine", out: "fine\n", log: strings.Repeat("\x00", 10_000_000)},
	} {
		t.Run(c.name, func(t *testing.T) {
			cmd := shell(c.script)
			if c.change != nil {
				c.change(cmd)
			}
			log := &lines{}
			out, err := cmd.run(t.Context(), &Call{line: []byte(c.stdin), Writer: log})
			if c.fails == "" {
				if err != nil || string(out.text) != c.out || string(out.json) != c.json {
					t.Errorf("got %.100q, JSON %q, %v", out.text, out.json, err)
				}
			} else {
				f, ok := isFailure(err)
				if !ok || !strings.Contains(f.message, c.fails) || f.exit != c.exit || f.signal != c.signal || f.reason != c.reason {
					t.Errorf("got %+v (%v)", f, err)
				}
				for _, e := range cmd.env {
					if path, ok := strings.CutPrefix(e, "PATH="); ok && strings.Contains(f.message, path) {
						t.Errorf("the caller is told the PATH: %s", f.message)
					}
				}
				if c.name == "fails" && string(f.out) != "partial\n" {
					t.Errorf("what it printed before: %q", f.out)
				}
			}
			if log.String() != c.log {
				t.Errorf("log %.100q", log.String())
			}
		})
	}
}

// Nothing of the agent's own environment gets to a command.
func TestCleanEnvironment(t *testing.T) {
	t.Setenv("AGENT_TOKEN", "t0p-secret")
	cmd := shell("env | sort")
	cmd.env = cleanEnv(&ConfigOptions{LookupEnv: os.LookupEnv}, map[string]string{"MINE": "yes", "HOME": "/own"})
	out, err := cmd.run(t.Context(), &Call{Writer: &lines{}})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for line := range strings.Lines(string(out.text)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		switch name {
		case "PWD", "SHLVL", "_", "OLDPWD": // the shell's own
			continue
		case "HOME":
			if value != "/own" {
				t.Errorf("HOME is %q", value)
			}
		}
		names = append(names, name)
	}
	want := []string{"HOME", "MINE", "PATH"}
	if _, ok := os.LookupEnv("LANG"); ok {
		want = []string{"HOME", "LANG", "MINE", "PATH"}
	}
	if !slices.Equal(names, want) || strings.Contains(string(out.text), "t0p-secret") {
		t.Errorf("the command sees %v", names)
	}
	if got := cleanEnv(&ConfigOptions{}, nil); !slices.Equal(got, []string{"PATH=" + defaultPath}) {
		t.Errorf("without any: %v", got)
	}
}

// What a timeout or a cancellation ends, it ends whole: the shell, its
// children, those that ignore SIGTERM, and those that left the group.
func TestEndsTheWholeGroup(t *testing.T) {
	for name, script := range map[string]string{
		"child":          "sleep 60 & echo $! > PID; wait",
		"grandchild":     "sh -c 'sleep 60 & echo $! > PID; wait' & wait",
		"ignores TERM":   "trap '' TERM; sh -c 'trap \"\" TERM; echo $$ > PID; while :; do sleep 1; done' & while :; do sleep 1; done",
		"its own group":  "setsid sh -c 'echo $$ > PID; sleep 60' & wait",
		"holds the pipe": "sleep 60 & echo $! > PID; exec sleep 60",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "pid")
			cmd := shell(strings.ReplaceAll(script, "PID", file))
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			over := make(chan error, 1)
			go func() {
				_, err := cmd.run(ctx, &Call{Writer: &lines{}})
				over <- err
			}()
			pid := pidIn(t, file)
			start := time.Now()
			cancel()
			if err := <-over; !errors.Is(err, context.Canceled) {
				t.Errorf("got %v", err)
			}
			if d := time.Since(start); d > termGrace+15*time.Second {
				t.Errorf("it took %v", d)
			}
			eventually(t, "the grandchild ends", func() bool { return !proctest.Alive(pid) })
		})
	}
}

// A tool that ends by itself leaves nothing behind, and what it left does not
// hold its place.
func TestNothingSurvivesItsTool(t *testing.T) {
	for name, script := range map[string]string{
		"in the background": "sleep 60 & echo $! > PID; echo done",
		"with its output":   "sh -c 'echo $$ > PID; sleep 60' 2>/dev/null & while [ ! -s PID ]; do sleep 0.01; done; echo done",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "pid")
			cmd := shell(strings.ReplaceAll(script, "PID", file))
			start := time.Now()
			out, err := cmd.run(t.Context(), &Call{Writer: &lines{}})
			if err != nil || string(out.text) != "done\n" {
				t.Errorf("got %q, %v", out.text, err)
			}
			if d := time.Since(start); d > 20*time.Second {
				t.Errorf("it took %v", d)
			}
			pid := pidIn(t, file)
			eventually(t, "what it started ends", func() bool { return !proctest.Alive(pid) })
		})
	}
}

// A process that made itself a session of its own holds the pipe open, but not
// the tool's place.
func TestEscapedProcessDoesNotHoldThePlace(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pid")
	cmd := shell("setsid sh -c 'echo $$ > " + file + "; exec sleep 60' & while [ ! -s " + file + " ]; do sleep 0.01; done; echo done")
	start := time.Now()
	out, err := cmd.run(t.Context(), &Call{Writer: &lines{}})
	if err != nil || string(out.text) != "done\n" || time.Since(start) > 20*time.Second {
		t.Errorf("got %q, %v after %v", out.text, err, time.Since(start))
	}
	_ = proctest.KillGroup(pidIn(t, file))
}

// Memory is counted over the whole group, where a limit is set.
func TestMemoryLimit(t *testing.T) {
	if !child.CanLimitMemory {
		t.Log("memory cannot be limited on this system, and a configuration that asks for it is refused")
		return
	}
	const grow = `x=$(head -c 60000000 /dev/zero | tr '\0' x); sleep 60`
	for name, script := range map[string]string{"alone": grow, "a child": "sh -c '" + strings.ReplaceAll(grow, "'", `'\''`) + "'; sleep 60"} {
		t.Run(name, func(t *testing.T) {
			cmd := shell(script)
			cmd.maxMemory = 32 << 20
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			_, err := cmd.run(ctx, &Call{Writer: &lines{}})
			f, ok := isFailure(err)
			if !ok || f.reason != "memory" || !strings.Contains(f.message, "33554432 bytes of memory") {
				t.Errorf("got %+v, %v", f, err)
			}
		})
	}
	cmd := shell("echo small")
	cmd.maxMemory = 32 << 20
	if out, err := cmd.run(t.Context(), &Call{Writer: &lines{}}); err != nil || string(out.text) != "small\n" {
		t.Errorf("within the limit: %q, %v", out.text, err)
	}
}

// bare is the same program, forked and executed with nothing around it.
func bare(c *command, stdin []byte) ([]byte, error) {
	path, err := c.find()
	if err != nil {
		return nil, err
	}
	return bareExec(path, c, stdin)
}

// A command tool's cost over a bare fork and exec of the same command; the
// bound is 15 %.
func BenchmarkCommandTool(b *testing.B) {
	cmd := shell("cat > /dev/null; echo ok")
	tool := Tool{Name: "ok", run: cmd, InputSchema: json.RawMessage(`{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]}`)}
	s, err := New(Options{Tools: []Tool{tool}})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close(context.Background())
	params := json.RawMessage(`{"name":"ok","arguments":{"a":1}}`)
	line := []byte(`{"tool":"ok","input":{"a":1},"metadata":{"agent":"agent","principal":"local"}}` + "\n")
	one := func() error {
		result, err := s.callTool(b.Context(), localRequest("tools/call", params))
		if err == nil && !strings.Contains(string(result), `"ok\n"`) {
			err = errors.New(string(result))
		}
		return err
	}
	direct := func() error {
		out, err := bare(cmd, line)
		if err == nil && string(out) != "ok\n" {
			err = errors.New(string(out))
		}
		return err
	}
	// Turn by turn, so that both see the same machine.
	var tools, plain time.Duration
	n := 0
	for b.Loop() {
		start := time.Now()
		if err := direct(); err != nil {
			b.Fatal(err)
		}
		middle := time.Now()
		if err := one(); err != nil {
			b.Fatal(err)
		}
		plain, tools = plain+middle.Sub(start), tools+time.Since(middle)
		n++
	}
	b.ReportMetric(float64(tools)/float64(plain), "x_fork_exec")
	b.ReportMetric(float64(plain.Microseconds())/float64(n), "µs_fork_exec")
	b.ReportMetric(float64(tools.Microseconds())/float64(n), "µs_tool")
}
