package fakemcp

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/testkit/proctest"
)

// program is the fake server as a process of its own.
type program struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Reader
	stderr *bytes.Buffer // to be read after the end
}

func start(t *testing.T, args ...string) *program {
	t.Helper()
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), asProgram+"=1")
	cmd.SysProcAttr = proctest.Group()
	p := &program{cmd: cmd, stderr: new(bytes.Buffer)}
	cmd.Stderr = p.stderr
	// What is spawned keeps the pipe of stderr open: do not wait for it.
	cmd.WaitDelay = 50 * time.Millisecond
	var err error
	if p.in, err = cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.out = bufio.NewReader(out)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if cmd.ProcessState == nil {
			// Its group as well: a test must leave no process behind.
			_ = proctest.KillGroup(cmd.Process.Pid)
			_ = cmd.Wait()
		}
	})
	return p
}

func (p *program) say(t *testing.T, line string) {
	t.Helper()
	if _, err := io.WriteString(p.in, line+"\n"); err != nil {
		t.Fatal(err)
	}
}

func (p *program) hear(t *testing.T) string {
	t.Helper()
	line, err := p.out.ReadString('\n')
	if err != nil {
		t.Fatalf("%v after %q", err, line)
	}
	return line
}

// end waits for the process and gives its exit code, -1 if a signal ended it.
func (p *program) end(t *testing.T) int {
	t.Helper()
	err := p.cmd.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) && !errors.Is(err, exec.ErrWaitDelay) {
		t.Error(err) // not Fatal: it may be asked from another goroutine
	}
	return p.cmd.ProcessState.ExitCode()
}

func TestProgramCrashesInMidCall(t *testing.T) {
	log := filepath.Join(t.TempDir(), "events")
	p := start(t, "-log", log)
	p.say(t, initialize)
	p.hear(t)
	p.say(t, legacyCall(2, "crash", `{"half":true}`))
	rest, err := io.ReadAll(p.out)
	if err != nil {
		t.Fatal(err)
	}
	if string(rest) != halfMessage {
		t.Errorf("it left %q behind, want half a message", rest)
	}
	if code := p.end(t); code != 3 || !strings.Contains(p.stderr.String(), "told to crash") {
		t.Errorf("exit code %d with %q, want 3", code, p.stderr)
	}
	if events, err := os.ReadFile(log); err != nil || string(events) != "initialize 2025-11-25\n" {
		t.Errorf("event log %q (%v)", events, err)
	}
}

func TestProgramEnds(t *testing.T) {
	for _, c := range []struct {
		name  string
		args  []string
		close bool             // stdin, and the process must survive that if it is sent signals
		sends []syscall.Signal // it survives all but the last
		code  int
	}{
		{"with its input", nil, true, nil, 0},
		{"when told to", nil, false, []syscall.Signal{syscall.SIGTERM}, 0},
		{"lingering, when told to", []string{"-linger"}, true, []syscall.Signal{syscall.SIGTERM}, 0},
		{"immune, when killed", []string{"-immune"}, true, []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL}, -1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := start(t, c.args...)
			p.say(t, initialize)
			p.hear(t) // so its signal handler is in place
			ended := make(chan int, 1)
			if c.close {
				_ = p.in.Close()
			}
			go func() { ended <- p.end(t) }()
			for _, signal := range c.sends {
				select {
				case code := <-ended:
					t.Fatalf("ended with %d before %v", code, signal)
				case <-time.After(100 * time.Millisecond):
				}
				if err := p.cmd.Process.Signal(signal); err != nil {
					t.Fatal(err)
				}
			}
			select {
			case code := <-ended:
				if code != c.code {
					t.Errorf("exit code %d, want %d", code, c.code)
				}
			case <-time.After(30 * time.Second):
				t.Errorf("still there")
				_ = p.cmd.Process.Kill()
				<-ended
			}
		})
	}
}

func TestGrandchildOutlivesItsParentButNotTheGroup(t *testing.T) {
	p := start(t)
	p.say(t, initialize)
	p.hear(t)
	p.say(t, legacyCall(2, "grandchild", "{}"))
	found := regexp.MustCompile(`"text":"(\d+)"`).FindStringSubmatch(p.hear(t))
	if found == nil {
		t.Fatal("no pid")
	}
	pid, err := strconv.Atoi(found[1])
	if err != nil {
		t.Fatal(err)
	}
	_ = p.in.Close()
	if code := p.end(t); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if !proctest.Exists(pid) {
		t.Error("the grandchild did not outlive its parent")
	}
	if err := proctest.KillGroup(p.cmd.Process.Pid); err != nil {
		t.Fatalf("the group is gone: %v", err)
	}
	for deadline := time.Now().Add(30 * time.Second); proctest.Alive(pid); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the grandchild outlived its group")
		}
	}
}

func TestCloseKillsChildren(t *testing.T) {
	s := newServer(t, Config{})
	pid, err := s.spawn()
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	if proctest.Exists(pid) {
		t.Error("the child is still there")
	}
}

func TestProgramRestartsOnItsPort(t *testing.T) {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	address := "127.0.0.1:0"
	for range 2 {
		reader, writer, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(os.Args[0], "-http", address, "-bare", "-tools", "1")
		cmd.Env = append(os.Environ(), asProgram+"=1")
		cmd.Stderr = writer
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		_ = writer.Close()
		line, err := bufio.NewReader(reader).ReadString('\n')
		_ = reader.Close()
		url := strings.TrimSpace(strings.TrimPrefix(line, "fakemcp: listening on "))
		if err != nil || !strings.HasPrefix(url, "http://127.0.0.1:") {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			t.Fatalf("it says %q, %v", line, err)
		}
		status, session, body := post(t, client, url, initialize)
		if status != 200 || session == "" {
			t.Errorf("%d %s", status, body)
		}
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("after SIGTERM: %v", err)
		}
		address = strings.TrimSuffix(strings.TrimPrefix(url, "http://"), "/mcp")
	}
}

func TestWrongFlags(t *testing.T) {
	for _, args := range [][]string{{"-no-such-flag"}, {"-init", "maybe"}, {"-versions", "1"}, {"-http", "127.0.0.1:99999"}} {
		var stderr bytes.Buffer
		if code := Main(t.Context(), args, strings.NewReader(""), io.Discard, &stderr); code == 0 || stderr.Len() == 0 {
			t.Errorf("%v: exit code %d with %q", args, code, stderr.String())
		}
	}
}
