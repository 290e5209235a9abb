package cli

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"
)

var transcript = flag.Bool("transcript", false, "write docs/transcript.txt anew")

// transcriptFile is the record of a fresh machine: commands after a $, each with what it printed.
const transcriptFile = "../../docs/transcript.txt"

// sinceWhen are the times of weir undo --list.
var sinceWhen = regexp.MustCompile(`\b\d\d-\d\d \d\d:\d\d\b`)

// TestTranscript goes through the record of a fresh machine: every command works, in a home with three
// clients and nothing of weir's but its program, and the first useful call comes within a minute.
// npx and uvx start a test server in place of what they would load. make transcript writes the record.
func TestTranscript(t *testing.T) {
	needsShell(t)
	text, err := os.ReadFile(transcriptFile)
	if err != nil {
		t.Fatal(err)
	}
	h := newHome(t)
	h.installed(t, "npx", "uvx")
	h.env = append(h.env, "HTTPS_PROXY=http://127.0.0.1:1", "https_proxy=http://127.0.0.1:1") // reach no real server
	began := time.Now()
	var out strings.Builder
	called := false
	for line := range strings.Lines(string(text)) {
		command, ok := strings.CutPrefix(strings.TrimSpace(line), "$ weir ")
		if !ok {
			continue
		}
		start := time.Now()
		f := h.weir(t, words(command)...).want(t, exitOK)
		if f.stdout == "" {
			t.Errorf("weir %s prints nothing", command)
		}
		fmt.Fprintf(&out, "$ weir %s\n%s(%.1f s)\n\n", command, f.stdout, time.Since(start).Seconds())
		if strings.HasPrefix(command, "call ") && !called {
			called = true
			if took := time.Since(began); took > time.Minute {
				t.Errorf("the first useful call has its answer after %s", took)
			}
			if !strings.Contains(f.stdout, "hello") {
				t.Errorf("the call answers %s", f.stdout)
			}
		}
	}
	if !called {
		t.Error("the transcript has no call")
	}
	if *transcript && !t.Failed() {
		record := strings.ReplaceAll(out.String(), h.dir, "~")
		if err := os.WriteFile(transcriptFile, []byte(sinceWhen.ReplaceAllString(record, "11-22 12:00")), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// words splits a command line at spaces. Text in single quotes is one word.
func words(line string) (out []string) {
	for i, part := range strings.Split(line, "'") {
		if i%2 == 1 {
			out = append(out, part)
		} else {
			out = append(out, strings.Fields(part)...)
		}
	}
	return out
}
