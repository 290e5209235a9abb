package streamable_test

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/mcp/streamable"
)

var update = flag.Bool("update", false, "write what the server answers into the transcripts")

// section is one part of a txtar file.
type section struct{ name, text string }

// parseArchive reads the txtar format: a comment, then parts that begin with a
// line "-- name --".
func parseArchive(data string) (comment string, parts []section) {
	for line := range strings.Lines(data) {
		if name, ok := strings.CutPrefix(line, "-- "); ok && strings.HasSuffix(line, " --\n") {
			parts = append(parts, section{name: strings.TrimSuffix(name, " --\n")})
			continue
		}
		if len(parts) == 0 {
			comment += line
		} else {
			parts[len(parts)-1].text += line
		}
	}
	return comment, parts
}

// shownHeaders are those of a response that a transcript has.
var shownHeaders = []string{"Content-Type", "Allow", "Cache-Control", "X-Accel-Buffering", "Mcp-Session-Id"}

// TestServerTranscripts plays the conversations in testdata/server. Each
// "request" is sent as it stands (with the usual Content-Type and Accept unless
// it has its own; "Accept: none" sends none), and what comes back must be the
// "response" after it. $SESSION is the id that the server gave.
// The word "sessionless" in the comment sets that option.
func TestServerTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/server/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			comment, parts := parseArchive(string(data))
			hs, _ := startServer(t, streamable.ServerOptions{Sessionless: strings.Contains(comment, "sessionless"), MaxBody: 4096})
			session := ""
			var out strings.Builder
			out.WriteString(comment)
			for _, part := range parts {
				if part.name != "request" {
					continue
				}
				fmt.Fprintf(&out, "-- request --\n%s-- response --\n%s", part.text, exchange(t, hs.URL, part.text, &session))
			}
			if *update {
				if err := os.WriteFile(file, []byte(out.String()), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if got := out.String(); got != string(data) {
				t.Errorf("%s differs; -update writes it anew.\n--- got\n%s\n--- want\n%s", file, got, data)
			}
		})
	}
}

// exchange sends one request of a transcript and returns the response in the
// same form.
func exchange(t *testing.T, base, text string, session *string) string {
	t.Helper()
	head, body, _ := strings.Cut(text, "\n\n")
	lines := strings.Split(strings.TrimSpace(head), "\n")
	method, path, _ := strings.Cut(lines[0], " ")
	req, err := http.NewRequest(method, base+path, strings.NewReader(strings.TrimSuffix(body, "\n")))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", "application/json, text/event-stream")
	if method == "POST" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i, line := range lines[1:] {
		name, value, ok := strings.Cut(line, ":")
		if !ok {
			t.Fatalf("header line %d: %q", i+1, line)
		}
		value = strings.TrimSpace(strings.ReplaceAll(value, "$SESSION", *session))
		if name == "Accept" && value == "none" {
			req.Header.Del(name)
			continue
		}
		req.Header.Set(name, value)
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if id := resp.Header.Get("Mcp-Session-Id"); id != "" {
		*session = id
	}
	var out strings.Builder
	fmt.Fprintf(&out, "%d\n", resp.StatusCode)
	for _, name := range shownHeaders {
		if v := resp.Header.Get(name); v != "" {
			fmt.Fprintf(&out, "%s: %s\n", name, v)
		}
	}
	if len(data) > 0 {
		fmt.Fprintf(&out, "\n%s\n", bytes.TrimSuffix(data, []byte("\n")))
	}
	text = out.String()
	if *session != "" {
		text = strings.ReplaceAll(text, *session, "$SESSION")
	}
	return text
}
