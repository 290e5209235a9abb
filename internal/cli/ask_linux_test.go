package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/host/trust"
)

// pty returns a terminal and the end from which a person sees and types.
func pty(t *testing.T) (terminal, person *os.File) {
	t.Helper()
	person, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { person.Close() })
	fd := int(person.Fd())
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	terminal, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { terminal.Close() })
	return terminal, person
}

// seen is what the person sees; it may be read while it grows.
type seen struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (s *seen) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.Write(b)
}

func (s *seen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.String()
}

// watch copies what a terminal shows its person to screen. copied is closed when the terminal is.
func watch(person io.Reader, screen io.Writer) (copied <-chan struct{}) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		buf := make([]byte, 1024)
		for {
			n, err := person.Read(buf) // fails once the terminal is closed
			_, _ = screen.Write(buf[:n])
			if err != nil {
				return
			}
		}
	}()
	return done
}

// From a terminal, inputs are asked for: a password without echo, an option by its number.
func TestInputsAreAsked(t *testing.T) {
	tty, person := pty(t)
	screen := &seen{}
	copied := watch(person, screen)
	a := &process{stdin: tty, stderr: newTerminal(tty, func(string) (string, bool) { return "", false })}
	ask := askInputs(a, t.Context())
	def := "eu"
	for _, c := range []struct {
		in      config.Input
		prompts string
		typed   string
		want    string
		ok      bool
	}{
		{config.Input{ID: "user", Type: config.InputPrompt}, "user:", "ann\n", "ann", true},
		{config.Input{ID: "key", Type: config.InputPrompt, Description: "API key", Password: true}, "API key:", "s3cret-typed\n", "s3cret-typed", true},
		{config.Input{ID: "region", Type: config.InputPrompt, Default: &def}, "region [eu]:", "\n", "", false},
		{config.Input{ID: "tier", Type: config.InputPick, Options: []string{"free", "paid"}}, "2  paid", "gold\n2\n", "paid", true},
		{config.Input{ID: "made", Type: config.InputCommand, Command: "echo", Args: []string{"out"}}, "", "", "out", true},
	} {
		typed := make(chan struct{})
		go func() {
			defer close(typed)
			for deadline := time.Now().Add(30 * time.Second); !strings.Contains(screen.String(), c.prompts) && time.Now().Before(deadline); {
				time.Sleep(time.Millisecond)
			}
			_, _ = person.WriteString(c.typed)
		}()
		got, ok, err := ask(c.in)
		<-typed
		if err != nil || got != c.want || ok != c.ok {
			t.Fatalf("%s: %q, %v, %v; want %q, %v; the screen shows %q", c.in.ID, got, ok, err, c.want, c.ok, screen)
		}
	}
	// What is on its way to the screen when the terminal closes is lost.
	for deadline := time.Now().Add(30 * time.Second); !strings.Contains(screen.String(), "none of the options") && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	tty.Close()
	person.Close()
	<-copied
	if shown := screen.String(); strings.Contains(shown, "s3cret") || !strings.Contains(shown, "ann") || !strings.Contains(shown, "none of the options") {
		t.Errorf("the screen shows %q", shown)
	}
}

// Without a terminal nobody is asked, and a signal ends a question.
func TestInputsAreNotAsked(t *testing.T) {
	in := config.Input{ID: "user", Type: config.InputPrompt}
	a := &process{stdin: strings.NewReader("ann\n"), stderr: terminal{Writer: &bytes.Buffer{}}}
	if got, ok, err := askInputs(a, t.Context())(in); ok || err != nil {
		t.Errorf("a pipe was asked: %q, %v", got, err)
	}
	tty, person := pty(t)
	a = &process{stdin: tty, stderr: newTerminal(tty, func(string) (string, bool) { return "", false })}
	ctx, cancel := context.WithCancel(t.Context())
	ask := askInputs(a, ctx)
	cancel()
	in.Password = true
	if got, ok, err := ask(in); ok || err == nil {
		t.Errorf("after the signal: %q, %v", got, err)
	}
	state, err := unix.IoctlGetTermios(int(tty.Fd()), unix.TCGETS)
	if err != nil || state.Lflag&unix.ECHO == 0 {
		t.Errorf("the terminal is left without echo (%v)", err)
	}
	if _, err := person.WriteString("\n"); err != nil { // lets the reader go
		t.Error(err)
	}
}

// TestAgreementIsAskedOnce: at a terminal the person sees what a file starts, without secrets, and a
// yes is remembered; anything else is a no.
func TestAgreementIsAskedOnce(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, ".mcp.json")
	text := `{"mcpServers": {"one": {"command": "sh", "args": ["run.sh", "${env:TOKEN}"]}, "two": {"url": "https://e.example/mcp"}}}`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	store := trust.New(filepath.Join(dir, "state", "trusted.json"))
	for _, c := range []struct {
		answer string
		agreed bool
	}{{"\n", false}, {"no\n", false}, {"y\n", true}, {"", true}} {
		tty, person := pty(t)
		screen, copied := &seen{}, make(chan struct{})
		go func() {
			defer close(copied)
			_, _ = io.Copy(screen, person) // ends with the terminal
		}()
		a := &process{stdin: tty, stderr: newTerminal(tty, func(string) (string, bool) { return "sesame", false })}
		if _, err := io.WriteString(person, c.answer); err != nil {
			t.Fatal(err)
		}
		err := (&foundConfig{path: path, store: store}).agree(a, t.Context(), true)
		tty.Close()
		<-copied
		if (err == nil) != c.agreed {
			t.Errorf("answer %q: %v", c.answer, err)
		}
		for _, want := range []string{"one: sh run.sh ${TOKEN}", "two: https://e.example/mcp", "[y/N]"} {
			if c.answer != "" && !strings.Contains(screen.String(), want) {
				t.Errorf("no %q on the screen: %s", want, screen)
			}
		}
		if c.answer == "" && screen.String() != "" {
			t.Errorf("asked twice: %s", screen)
		}
	}
}
