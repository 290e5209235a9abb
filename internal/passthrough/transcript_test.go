package passthrough_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/testkit/fakemcp"
)

var update = flag.Bool("update", false, "write the transcripts anew, as the way \"forward\" answers")

// step is one exchange of a transcript.
type step struct {
	comment string
	method  string
	header  []string
	body    string
	want    string // status, then the messages, a line each
}

// TestTranscripts runs each transcript over both ways to an upstream and both
// paths of the Router. The answers have to be the same, byte for byte.
//
// A transcript is made of exchanges: "-- agent: POST --", header lines, a blank
// line and the body; then "-- weir: 200 --" and a line for each message. The
// session that initialize started is named by itself from then on.
func TestTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	paths := []string{"/mcps/fake/mcp", "/mcp/fake/mcp"}
	for _, way := range ways {
		for i, path := range paths {
			t.Run(way.name+path, func(t *testing.T) {
				e := way.start(t, fakemcp.Config{}, nil).ready()
				for _, file := range files {
					t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
						play(t, e, path, file, *update && way.name == "forward" && i == 0)
					})
				}
			})
		}
	}
}

func play(t *testing.T, e *env, path, file string, write bool) {
	steps := readTranscript(t, file)
	session := ""
	var out strings.Builder
	for i, s := range steps {
		header := s.header
		if session != "" {
			header = append([]string{"Mcp-Session-Id", session}, header...)
		}
		res := e.do(e.request(context.Background(), s.method, path, s.body, header...))
		if id := res.header.Get("Mcp-Session-Id"); id != "" {
			session = id
		}
		got := fmt.Sprintln(res.status)
		for _, m := range res.msgs {
			got += m + "\n"
		}
		if !write && got != s.want && !(strings.HasPrefix(filepath.Base(file), "modern") && sameValues(got, s.want)) {
			t.Fatalf("%s, exchange %d (%s):\n%s\ngot:\n%s\nwant:\n%s", file, i+1, strings.TrimSpace(s.comment), s.body, got, s.want)
		}
		status, msgs, _ := strings.Cut(got, "\n")
		fmt.Fprintf(&out, "%s-- agent: %s --\n", s.comment, s.method)
		for j := 0; j < len(s.header); j += 2 {
			fmt.Fprintf(&out, "%s: %s\n", s.header[j], s.header[j+1])
		}
		fmt.Fprintf(&out, "\n%s\n-- weir: %s --\n%s", s.body, status, msgs)
	}
	if write {
		if err := os.WriteFile(file, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// sameValues compares answers that one way got from the server and the other
// completed here: the order of the keys that 2026-07-28 adds may differ, nothing
// else.
func sameValues(a, b string) bool {
	as, bs := strings.Split(a, "\n"), strings.Split(b, "\n")
	if len(as) != len(bs) {
		return false
	}
	for i := range as {
		if !reflect.DeepEqual(decode(as[i]), decode(bs[i])) {
			return false
		}
	}
	return true
}

func decode(s string) any {
	var v any
	d := json.NewDecoder(strings.NewReader(s))
	d.UseNumber()
	if d.Decode(&v) != nil {
		return s
	}
	return v
}

func readTranscript(t *testing.T, file string) []step {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var steps []step
	var comment strings.Builder
	part := ""
	inBody := false
	for line := range strings.Lines(string(data)) {
		text := strings.TrimSuffix(line, "\n")
		if name, ok := strings.CutPrefix(text, "-- "); ok && strings.HasSuffix(name, " --") {
			who, what, _ := strings.Cut(strings.TrimSuffix(name, " --"), ": ")
			part, inBody = who, false
			switch who {
			case "agent":
				steps = append(steps, step{method: what, comment: comment.String()})
				comment.Reset()
			case "weir":
				steps[len(steps)-1].want = what + "\n"
			default:
				t.Fatalf("%s: unknown part %q", file, text)
			}
			continue
		}
		if strings.HasPrefix(text, "#") {
			comment.WriteString(line)
			continue
		}
		if part == "" {
			t.Fatalf("%s begins with no part", file)
		}
		s := &steps[len(steps)-1]
		switch {
		case part == "weir":
			s.want += line
		case inBody:
			s.body += text
		case text == "":
			inBody = true
		default:
			k, v, ok := strings.Cut(text, ": ")
			if !ok {
				t.Fatalf("%s: %q is no header", file, text)
			}
			s.header = append(s.header, http.CanonicalHeaderKey(k), v)
		}
	}
	return steps
}
