package stdio

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-mcp/weir/internal/host/child"
	"github.com/weir-mcp/weir/mcp"
)

// endless reads as one line without an end, or as so many bytes of it.
type endless struct{ left, read int64 }

func (e *endless) Read(p []byte) (int, error) {
	if e.left == 0 {
		return 0, io.EOF
	}
	if e.left > 0 {
		p = p[:min(int64(len(p)), e.left)]
		e.left -= int64(len(p))
	}
	for i := range p {
		p[i] = 'x'
	}
	e.read += int64(len(p))
	return len(p), nil
}

func (e *endless) Close() error { return nil }

// TestEndlessLine: a line over the bound is skipped, and one without an end ends the stream, before it
// has cost much.
func TestEndlessLine(t *testing.T) {
	long := strings.Repeat("y", 5000) + "\n" + `{"jsonrpc":"2.0","method":"after"}` + "\n"
	r := &endless{left: -1}
	s := NewStream(io.MultiReader(strings.NewReader(long), r), io.Discard, 1000, nil)
	var lost *mcp.LostMessage
	if _, err := s.Read(); !errors.As(err, &lost) {
		t.Fatalf("a long line: %v", err)
	}
	if line, err := s.Read(); err != nil || !strings.Contains(string(line), "after") {
		t.Fatalf("after a long line: %s, %v", line, err)
	}
	_, err := s.Read()
	if !errors.Is(err, errEndless) || errors.As(err, &lost) {
		t.Errorf("a line without an end: %v", err)
	}
	if r.read > 3*endlessBytes {
		t.Errorf("%d bytes were read", r.read)
	}
	if _, err := s.Read(); !errors.Is(err, errEndless) {
		t.Errorf("again: %v", err)
	}
}

// TestEndlessLineEndsTheChild: the error says why, and the program does not go on.
func TestEndlessLineEndsTheChild(t *testing.T) {
	p, err := Start(Command{Name: `upstream "files"`, Path: "sh", Args: []string{"-c", `tr '\0' x < /dev/zero`}, Env: os.Environ(), MaxMessage: 1000})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if _, err := p.Read(); err == nil || !strings.Contains(err.Error(), `upstream "files" wrote a line of more than 1000 bytes`) {
		t.Errorf("of a program: %v", err)
	}
	<-p.Exited()
}

// TestStderrIsPaced: a program that floods its stderr is read at a bounded rate, and a word in the log
// says so once.
func TestStderrIsPaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		p := &Process{cmd: Command{Name: `upstream "files"`, Logger: slog.New(slog.NewTextHandler(&log, nil))}}
		began := time.Now()
		p.readStderr(&endless{left: child.PaceBurst})
		if took := time.Since(began); took > time.Second || log.Len() > 0 {
			t.Errorf("a burst took %v: %s", took, log.String())
		}
		p.readStderr(&endless{left: child.PaceBurst + 60*child.PaceRate})
		if took := time.Since(began); took < 55*time.Second || took > 65*time.Second {
			t.Errorf("a flood took %v", took)
		}
		if strings.Count(log.String(), "stderr") != 1 || !strings.Contains(log.String(), "files") {
			t.Errorf("the log: %s", log.String())
		}
	})
}
