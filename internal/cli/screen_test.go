package cli

import (
	"bytes"
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/net/httpserver"
	"github.com/weir-mcp/weir/internal/observe"
	"github.com/weir-mcp/weir/internal/text/visible"
)

// foul steers a terminal, and shows another order than there is.
const foul = "a\x1b]0;title\x07\x1b[2J\u009b31m\u202eb\u200b\U000E0041é👩\u200d💻\tc"

// TestScreen: of what steers a terminal only weir's own reaches one.
func TestScreen(t *testing.T) {
	var out bytes.Buffer
	line := &statusLine{w: &screen{w: &out}}
	term := terminal{Writer: line, width: 80, colour: true}
	line.show(term.paint(dim, "busy"))
	half := strings.Index(foul, "é") + 1
	for _, part := range []string{term.paint(red, foul) + "\n", foul[:half], foul[half:], "\n"} {
		if n, err := term.Write([]byte(part)); err != nil || n != len(part) {
			t.Fatal(n, err)
		}
	}
	line.show("")
	const seen = "a]0;title[2J31mbé👩\u200d💻\tc"
	want := clearLine + "\x1b[2mbusy\x1b[0m" + clearLine + "\x1b[31m" + seen + "\x1b[0m\n" + "\x1b[2mbusy\x1b[0m" + clearLine + seen + "\n"
	if got := out.String(); got != want {
		t.Errorf("%q, want\n%q", got, want)
	}
	// A character that comes in two parts stays one.
	out.Reset()
	s := &screen{w: &out}
	for _, b := range []byte("é漢😀\u200b.") {
		if _, err := s.Write([]byte{b}); err != nil {
			t.Fatal(err)
		}
	}
	if out.String() != "é漢😀." {
		t.Errorf("%q", out.String())
	}
}

// TestAnswersForOperators: /healthz and the like, JSON on a screen and the log obey
// nobody and show everything.
func TestAnswersForOperators(t *testing.T) {
	w := httptest.NewRecorder()
	httpserver.WriteJSON(w, 200, map[string]string{"error": foul})
	var back map[string]string
	if err := json.Unmarshal(w.Body.Bytes(), &back); err != nil || back["error"] != foul {
		t.Errorf("%s, %v", w.Body, err)
	}
	if visible.Find(w.Body.String()) != 0 {
		t.Errorf("%q", w.Body)
	}
	var out bytes.Buffer
	if err := printJSON(terminal{Writer: &screen{w: &out}, width: 80}, back); err != nil {
		t.Fatal(err)
	}
	clear(back)
	if err := json.Unmarshal(out.Bytes(), &back); err != nil || back["error"] != foul {
		t.Errorf("%q, %v", out.String(), err)
	}
	for _, format := range []string{"text", "json"} {
		out.Reset()
		observe.NewLog(&out, &config.Config{Log: config.Log{Level: "info", Format: format}}).Info(foul, "err", foul)
		if visible.Find(strings.TrimSpace(out.String())) != 0 || !strings.Contains(out.String(), "b") {
			t.Errorf("%s: %q", format, out.String())
		}
	}
}
