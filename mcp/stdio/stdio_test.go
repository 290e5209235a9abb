package stdio

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/testkit/leak"
	"github.com/weir-mcp/weir/internal/testkit/proctest"
	"github.com/weir-mcp/weir/mcp"
)

func TestMain(m *testing.M) { leak.Main(m) }

func TestStreamRead(t *testing.T) {
	long := `"` + strings.Repeat("x", 3*bufSize) + `"`
	for _, c := range []struct {
		name, in string
		want     []string
		last     string // the error's text
	}{
		{"lines", "{\"a\":1}\n{\"b\":2}\n", []string{`{"a":1}`, `{"b":2}`}, "EOF"},
		{"CRLF and empty lines", "\r\n{\"a\":1}\r\n\n  \n{}\n", []string{`{"a":1}`, `{}`}, "EOF"},
		{"no end of line", "{}", []string{`{}`}, "EOF"},
		{"longer than the buffer", long + "\n{}\n", []string{long, `{}`}, "EOF"},
		{"too long", "{}\n" + strings.Repeat("y", 1<<20) + "\n{}\n", []string{`{}`}, "more than"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := NewStream(strings.NewReader(c.in), io.Discard, 4*bufSize, nil)
			for _, want := range c.want {
				got, err := s.Read()
				if err != nil || string(got) != want {
					t.Fatalf("got %.40q, %v", got, err)
				}
			}
			if _, err := s.Read(); err == nil || !strings.Contains(err.Error(), c.last) {
				t.Errorf("ended with %v", err)
			}
		})
	}
}

// An agent that sends too much is told so and can go on.
func TestTooLongIsSkipped(t *testing.T) {
	for name, long := range map[string]string{
		"by little": strings.Repeat("y", 4*bufSize), "by much": strings.Repeat("y", 1<<20), "to the end of a buffer": strings.Repeat("y", 5*bufSize-1),
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			in := strings.NewReader(long + "\n" + `{"jsonrpc":"2.0","id":7,"method":"ping"}` + "\n" + long + "\n" + `{"jsonrpc":"2.0","id":8,"method":"ping"}`)
			c := mcp.NewConn(NewStream(in, &out, 4*bufSize, nil), mcp.ConnOptions{Handler: mcp.HandlerFunc(func(context.Context, *mcp.Request) (json.RawMessage, error) {
				return json.RawMessage(`{}`), nil
			})})
			<-c.Done()
			if err := c.Close(); err != nil {
				t.Error(err)
			}
			got := out.String()
			if strings.Count(got, "more than") != 2 || !strings.Contains(got, `"id":7,"result"`) || !strings.Contains(got, `"id":8,"result"`) || strings.Count(got, `"id":null`) != 2 {
				t.Errorf("answered %q", got)
			}
		})
	}
}

// TestTooLongIsAnswered: a request over the bound gets an error with its id, a notification none, and a
// response ends the call that waits for it.
func TestTooLongIsAnswered(t *testing.T) {
	in, agent := io.Pipe()
	answers, out := io.Pipe()
	c := mcp.NewConn(NewStream(in, out, 4*bufSize, in.Close), mcp.ConnOptions{Drain: time.Second})
	defer c.Close()
	lines := bufio.NewScanner(answers)
	exchange := func(line string) string {
		t.Helper()
		go func() { _, _ = io.WriteString(agent, line) }()
		if !lines.Scan() {
			t.Fatal(lines.Err())
		}
		return lines.Text()
	}
	long := strings.Repeat("x", 8*bufSize)
	for name, line := range map[string]string{
		"id first": `{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"text":"` + long + `","id":4}}`,
		"id last":  `{"method":"tools/call","params":{"text":"` + long + `","id":4},"jsonrpc":"2.0","id":"a"}`,
	} {
		if got := exchange(line + "\n"); !strings.Contains(got, `"id":"a","error"`) || !strings.Contains(got, "more than") {
			t.Errorf("%s: %s", name, got)
		}
	}
	notice := `{"jsonrpc":"2.0","method":"notifications/x","params":{"text":"` + long + `"}}`
	if got := exchange(notice + "\n" + `{"jsonrpc":"2.0","id":8,"method":"initialize","params":{}}` + "\n"); !strings.Contains(got, `"id":8,`) {
		t.Errorf("after a notification: %s", got)
	}
	failed := make(chan error, 1)
	go func() {
		_, err := c.Call(t.Context(), "sampling/createMessage", nil, nil)
		failed <- err
	}()
	if !lines.Scan() {
		t.Fatal(lines.Err())
	}
	var asked struct{ ID int64 }
	if err := json.Unmarshal(lines.Bytes(), &asked); err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fprintf(agent, `{"jsonrpc":"2.0","id":%d,"result":{"id":1,"text":"%s"}}`+"\n", asked.ID, long); err != nil {
		t.Fatal(err)
	}
	if err := <-failed; err == nil || !strings.Contains(err.Error(), "more than") {
		t.Errorf("the call ended with %v", err)
	}
}

// spec/calls §7: raw CR and LF inside a message are removed before stdio.
func TestStreamWrite(t *testing.T) {
	var out bytes.Buffer
	s := NewStream(strings.NewReader(""), &out, 100, nil)
	if err := s.Write([]byte("{\r\n  \"a\": \"\\n\"\n}")); err != nil {
		t.Fatal(err)
	}
	if _, err := s.WriteAll([][]byte{[]byte("{\n}"), []byte("[]")}, true); err != nil {
		t.Fatal(err)
	}
	if done, err := s.WriteAll([][]byte{[]byte("[]")}, false); done || err != nil {
		t.Errorf("a writer that may block was written without waiting (%v)", err)
	}
	if got, want := out.String(), "{  \"a\": \"\\n\"}\n{}\n[]\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func start(t *testing.T, script string, env ...string) *Process {
	t.Helper()
	p, err := Start(Command{
		Name: `upstream "test"`, Path: "sh", Args: []string{"-c", script}, Grace: 200 * time.Millisecond,
		Env: append([]string{"PATH=" + os.Getenv("PATH")}, env...),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

// The child gets the environment it was given and nothing of ours.
func TestProcessEnvironmentIsClean(t *testing.T) {
	t.Setenv("WEIR_TEST_SECRET", "hunter2")
	p := start(t, `env | sort | tr '\n' ' '`, "ONLY=this")
	out, err := p.Read()
	if err != nil || strings.Contains(string(out), "hunter2") || !strings.Contains(string(out), "ONLY=this") {
		t.Errorf("%s, %v", out, err)
	}
}

func TestProcessSaysHowItEnded(t *testing.T) {
	p := start(t, `echo first >&2; echo "no such database" >&2; exit 3`)
	_, err := p.Read()
	if k, _ := mcp.KindOf(err); k != mcp.KindUpstreamUnavailable {
		t.Errorf("kind of %v", err)
	}
	for _, want := range []string{`upstream "test"`, "exit status 3", "no such database"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q lacks %q", err, want)
		}
	}
}

// What keeps a program from starting is told with the program, the owner and the
// fix, and in few words.
func TestStartErrors(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	data := file("data", "x", 0o600)
	script := file("script", "#!/no/such/interpreter\n", 0o700)
	for name, c := range map[string]struct{ path, dir, want string }{
		"nothing":             {"", "", "no command is given"},
		"not in PATH":         {"no-such-program", "", `cannot start "no-such-program": not found in PATH; install it`},
		"no such file":        {"./no-such-file", dir, "there is no such file"},
		"not executable":      {data, "", "may not be executed"},
		"no interpreter":      {script, "", "interpreter"},
		"no such cwd":         {"/bin/sh", dir + "/gone", fmt.Sprintf("its working directory %q does not exist; create it, or correct cwd", dir+"/gone")},
		"cwd is a file":       {"/bin/sh", data, "is not a directory; correct cwd"},
		"cwd and no such cwd": {"no-such-program", dir + "/gone", "not found in PATH"},
	} {
		_, err := Start(Command{Name: `upstream "files"`, Path: c.path, Dir: c.dir, Env: []string{"PATH=/bin:" + strings.Repeat("/usr/bin:", 100)}})
		if err == nil {
			t.Errorf("%s: no error", name)
			continue
		}
		if k, _ := mcp.KindOf(err); k != mcp.KindUpstreamUnavailable || !strings.HasPrefix(err.Error(), `upstream "files": cannot start "`) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v (%s)", name, err, k)
		}
		if len(err.Error()) > 200+len(c.dir)+len(c.path) {
			t.Errorf("%s: %d bytes: %v", name, len(err.Error()), err)
		}
	}
}

// Without a PATH of its own a program is looked up in that of this process, and
// what is missing is told in the same words.
func TestStartErrorWithoutPath(t *testing.T) {
	_, err := Start(Command{Name: "x", Path: "no-such-program"})
	if err == nil || err.Error() != `x: cannot start "no-such-program": not found in PATH; install it, or set command to its full path` {
		t.Errorf("got %v", err)
	}
}

func TestLastWords(t *testing.T) {
	for in, want := range map[string]string{
		"": "", "\n\n": "", "one": "; its last words: one", "one\n two \n": "; its last words: two",
		"one\n\x1b[1;31mtwo\x1b[0m\n\x1b[0m\n":       "; its last words: two",
		"10%\r20%\r\n":                               "; its last words: 20%",
		"\x1b]0;title\x07a\tb\x1b[2K\x1b(B\x00\xffc": "; its last words: a b?c",
		strings.Repeat("é", 300):                     "; its last words: " + strings.Repeat("é", 200) + "…",
	} {
		if got := lastWords(plain(in)); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

func TestProcessLastWords(t *testing.T) {
	p, err := Start(Command{
		Name: "x", Path: "/bin/sh", Args: []string{"-c", `printf '\033[31mno password \033[1mhunter2\033[0m\n' >&2`},
		Redact: func(s string) string { return strings.ReplaceAll(s, "password hunter2", "[redacted]") },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	<-p.Exited()
	if got := p.LastWords(); got != "; its last words: no [redacted]" {
		t.Errorf("got %q", got)
	}
}

func TestExcerpt(t *testing.T) {
	redact := func(s string) string { return strings.ReplaceAll(s, "hunter2", "…") }
	for in, want := range map[string]string{
		"": "", " \n": "", "\n\x1b[32mListening\x1b[0m on hunter2\nmore": "Listening on …",
		"hun\x1b[1mter2": "…", strings.Repeat("x", 1<<20): strings.Repeat("x", 200) + "…",
	} {
		if got := Excerpt(in, redact); got != want {
			t.Errorf("%.80q: %q, want %q", in, got, want)
		}
	}
	if got := Excerpt("plain", nil); got != "plain" {
		t.Errorf("got %q", got)
	}
}

func waitGone(t *testing.T, pid int) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); proctest.Alive(pid); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("process %d is still there", pid)
		}
	}
}

// mcp-wire: kill process groups, not only the child; a child may ignore the
// end of stdin and even SIGTERM.
func TestCloseEndsTheGroup(t *testing.T) {
	for name, script := range map[string]string{
		"ends at the end of stdin": `sleep 600 & echo $!; cat >/dev/null`,
		"needs SIGTERM":            `sleep 600 & echo $!; wait`,
		"needs SIGKILL":            `trap '' TERM; sleep 600 & echo $!; while :; do sleep 600; done`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := start(t, script)
			line, err := p.Read()
			if err != nil {
				t.Fatal(err)
			}
			grandchild, err := strconv.Atoi(string(line))
			if err != nil {
				t.Fatal(err)
			}
			if err := p.Close(); err != nil {
				t.Error(err)
			}
			waitGone(t, p.Pid())
			waitGone(t, grandchild)
		})
	}
}

// A child that serves elsewhere than on its stdin is told to end at once.
func TestCloseOfAChildWithoutInput(t *testing.T) {
	p, err := Start(Command{
		Name: "test", Path: "/bin/sh", Args: []string{"-c", `trap 'echo told; exit' TERM; echo up; while :; do sleep 0.01; done`}, Grace: time.Hour, NoInput: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	if line, err := p.Read(); err != nil || string(line) != "up" {
		t.Fatalf("read %q, %v", line, err)
	}
	closed := make(chan error, 1)
	go func() { closed <- p.Close() }()
	select {
	case err := <-closed:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(30 * time.Second):
		p.Kill()
		t.Fatalf("the child was not told to end: %v", <-closed)
	}
}

// A child that ends by itself leaves nothing behind, either.
func TestGrandchildDoesNotSurvive(t *testing.T) {
	p := start(t, `sleep 600 & echo $!; exit 1`)
	line, err := p.Read()
	if err != nil {
		t.Fatal(err)
	}
	grandchild, _ := strconv.Atoi(string(line))
	if _, err := p.Read(); err == nil {
		t.Error("no error after the end")
	}
	waitGone(t, grandchild)
}

func TestConnOverProcess(t *testing.T) {
	script := `while read -r line; do case "$line" in *'"id":1,'*) echo '{"jsonrpc":"2.0","id":1,"result":{"ok":true}}';; *) kill -9 $$;; esac; done`
	p := start(t, script)
	c := mcp.NewConn(p, mcp.ConnOptions{Name: `upstream "test"`, Client: true})
	defer c.Close()
	if out, err := c.Call(t.Context(), "a", nil, nil); err != nil || string(out) != `{"ok":true}` {
		t.Fatalf("%s, %v", out, err)
	}
	_, err := c.Call(t.Context(), "b", json.RawMessage(`{}`), nil)
	if k, _ := mcp.KindOf(err); k != mcp.KindUpstreamUnavailable || !strings.Contains(err.Error(), "killed") {
		t.Errorf("killed in mid-call: %v", err)
	}
}

func TestRelativeProgramAndDir(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "tool"), []byte("#!/bin/sh\npwd\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	p, err := Start(Command{Name: "x", Path: "tool", Env: []string{"PATH=/nowhere:" + dir + ":/bin:/usr/bin"}, Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if out, err := p.Read(); err != nil || !strings.HasSuffix(string(out), filepath.Base(dir)) {
		t.Errorf("%s, %v", out, err)
	}
}

// A server on a pair of pipes, as an agent that starts weir sees it.
func ExampleNewStream() {
	in := strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"ping"}` + "\n")
	out := make(lines, 1)
	server := mcp.NewConn(NewStream(in, out, maxFromAgent, nil), mcp.ConnOptions{Handler: &mcp.Lifecycle{Next: mcp.HandlerFunc(
		func(context.Context, *mcp.Request) (json.RawMessage, error) { return nil, nil })}})
	fmt.Print(<-out)
	server.Close()
	// Output: {"jsonrpc":"2.0","id":1,"result":{}}
}

type lines chan string

func (l lines) Write(b []byte) (int, error) { l <- string(b); return len(b), nil }

// A child that ends within its answer has ended, and says so; what it printed beside
// messages is handed on all the same.
func TestProcessEndsWithinAnAnswer(t *testing.T) {
	p := start(t, `printf '{"jsonrpc":"2.0","id":1,"result":{"con'; exit 3`)
	if msg, err := p.Read(); err == nil || !strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("got %q, %v", msg, err)
	}
	for script, want := range map[string]string{
		`printf '{"jsonrpc":"2.0","id":1,"result":{}}'`: `{"jsonrpc":"2.0","id":1,"result":{}}`,
		`printf 'no database'`:                          `no database`,
	} {
		if msg, err := start(t, script).Read(); err != nil || string(msg) != want {
			t.Errorf("%s: %q, %v", script, msg, err)
		}
	}
}

// What a child has started in a session of its own ends with it, where the system
// tells of descendants.
func TestProcessEndsWhatLeftItsGroup(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux knows descendants outside the process group")
	}
	p := start(t, `setsid sh -c 'echo $$; exec sleep 600' & cat`)
	line, err := p.Read()
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(string(line))
	if err != nil || !proctest.Alive(pid) {
		t.Fatalf("%q, %v", line, err)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	waitGone(t, pid)
}
