package cli

import (
	"bytes"
	"context"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A session is a command at a terminal.
type session struct {
	t      *testing.T
	screen *seen
	stdout bytes.Buffer
	ended  chan error
	typed  func(string)
}

// atTerminal starts a command whose standard input and standard error are a terminal. Extra environment
// goes before the arguments, as NAME=VALUE.
func atTerminal(t *testing.T, args ...string) *session {
	t.Helper()
	env := []string{"TERM=dumb"}
	for len(args) > 0 && strings.Contains(args[0], "=") {
		env, args = append(env, args[0]), args[1:]
	}
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, weirBin, args...)
	cmd.Dir, cmd.Env = t.TempDir(), environment(env...)
	return personAt(t, cmd)
}

// personAt starts a program whose standard input and standard error are a terminal.
func personAt(t *testing.T, cmd *exec.Cmd) *session {
	t.Helper()
	tty, person := pty(t)
	s := &session{t: t, screen: &seen{}, ended: make(chan error, 1)}
	s.typed = func(text string) {
		if _, err := person.WriteString(text); err != nil {
			t.Error(err)
		}
	}
	cmd.Stdin, cmd.Stderr, cmd.Stdout = tty, tty, &s.stdout
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setsid, cmd.SysProcAttr.Setctty = true, true // Ctrl-C is a signal to it
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	copied := watch(person, s.screen)
	go func() { s.ended <- cmd.Wait() }()
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it has ended, unless the test failed
		tty.Close()
		person.Close()
		<-copied
	})
	return s
}

// answer types a line once the screen shows a text.
func (s *session) answer(shown, line string) {
	s.t.Helper()
	s.shows(shown)
	s.typed(line)
}

// shows waits until the screen shows a text.
func (s *session) shows(shown string) {
	s.t.Helper()
	for end := time.Now().Add(20 * time.Second); !strings.Contains(s.screen.String(), shown); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			s.t.Fatalf("no %q on the screen: %s", shown, s.screen)
		}
	}
}

// end waits for the exit code.
func (s *session) end(want int) {
	s.t.Helper()
	select {
	case err := <-s.ended:
		code := 0
		if exit, ok := err.(*exec.ExitError); ok {
			code = exit.ExitCode()
		}
		if code != want {
			s.t.Errorf("exit code %d, want %d\nscreen: %s\nstdout: %s", code, want, s.screen, &s.stdout)
		}
	case <-time.After(20 * time.Second):
		s.t.Fatalf("the command does not end; the screen shows %s", s.screen)
	}
}

const asksApproval = oneFake + "policy: {rules: [{action: require_approval, tool: echo, reason: it is loud}]}\n"

// TestApprovalAtTheTerminal: what the policy wants a person for is asked where the person is.
func TestApprovalAtTheTerminal(t *testing.T) {
	t.Parallel()
	s := serve(t, asksApproval)
	s.tool("fake:echo")
	for _, at := range [][]string{{"--url", s.url}, {"--config", s.config}} {
		call := append([]string{"call", "fake:echo", "--arg", "text=approved"}, at...)
		yes := atTerminal(t, call...)
		yes.answer("Allow it? [y/N]", "maybe\n")
		yes.answer("y or n, please", "y\n")
		yes.end(exitOK)
		yes.shows("Reason: it is loud")
		if yes.stdout.String() != "approved\n" {
			t.Errorf("stdout %q, screen %s", &yes.stdout, yes.screen)
		}
		no := atTerminal(t, call...)
		no.answer("Allow it? [y/N]", "\n") // no is the default
		no.end(exitRefused)
		no.shows("did not approve")
		if no.stdout.Len() > 0 {
			t.Errorf("stdout %q, screen %s", &no.stdout, no.screen)
		}
	}
	// Without a terminal, the call waits for an operator of the gateway.
	call := []string{"call", "fake:echo", "--arg", "text=approved", "--url", s.url}
	for _, decision := range []string{"approve", "deny"} {
		ended := make(chan finished, 1)
		go func() { ended <- weir(t, call...) }()
		given := []string{"approve", awaitApprovals(t, s, 1)[0].ID, "--config", s.config}
		if decision == "deny" {
			given = append(given, "--deny", "--reason", "too loud")
		}
		weir(t, given...).want(t, exitOK)
		got := <-ended
		if decision == "approve" {
			if got.want(t, exitOK, "weir approve "); got.stdout != "approved\n" {
				t.Errorf("stdout %q", got.stdout)
			}
			continue
		}
		if got.want(t, exitRefused, "too loud"); got.stdout != "" {
			t.Errorf("stdout %q", got.stdout)
		}
	}
}

// TestFormsAtTheTerminal: a server's form is filled in at the terminal; Ctrl-C and the end of input
// cancel it.
func TestFormsAtTheTerminal(t *testing.T) {
	t.Parallel()
	s := serve(t, oneFake)
	s.tool("fake:elicit")
	call := []string{"call", "elicit", "--raw", "--url", s.url}
	filled := atTerminal(t, call...)
	filled.answer("name (string):", "\n")
	filled.answer("it is needed", "Ada\n")
	filled.answer("Send this? [Y/n]", "\n")
	filled.end(exitOK)
	if !strings.Contains(filled.stdout.String(), `"action":"accept"`) || !strings.Contains(filled.stdout.String(), `"name":"Ada"`) {
		t.Errorf("stdout %s, screen %s", &filled.stdout, filled.screen)
	}
	sent := atTerminal(t, call...)
	sent.answer("name (string):", "Ada\n")
	sent.answer("Send this? [Y/n]", "n\n")
	sent.end(exitOK)
	ended := atTerminal(t, call...)
	ended.answer("name (string):", "\x04")
	ended.end(exitOK)
	stopped := atTerminal(t, call...)
	stopped.answer("name (string):", "\x03")
	stopped.end(exitInterrupted)
	for _, c := range []struct {
		*session
		want string
	}{{sent, `"action":"decline"`}, {ended, `"action":"cancel"`}, {stopped, `"action":"cancel"`}} {
		if !strings.Contains(c.stdout.String(), c.want) {
			t.Errorf("stdout %s, want %s; screen %s", &c.stdout, c.want, c.screen)
		}
	}
	weir(t, call...).want(t, exitOK, "the client of this call does not declare the capability")
}

// TestTaskAtTheTerminal: while a task is waited for, the terminal shows what it does; its result
// goes to standard output.
func TestTaskAtTheTerminal(t *testing.T) {
	t.Parallel()
	s := taskGateway(t, "200ms")
	call := atTerminal(t, "call", "later", "--url", s.url)
	call.shows("runs as a task")
	call.end(exitOK)
	if call.stdout.String() != "counted\n" {
		t.Errorf("stdout %q, screen %s", &call.stdout, call.screen)
	}
	stopped := atTerminal(t, "call", "never", "--arg", "pid="+t.TempDir()+"/pid", "--url", s.url)
	stopped.shows("runs as a task")
	stopped.typed("\x03")
	stopped.end(exitInterrupted)
}
