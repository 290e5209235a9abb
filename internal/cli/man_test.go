package cli

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// TestMan: each command has a page with its name, options and parent, and two runs write the same
// bytes.
func TestMan(t *testing.T) {
	t.Parallel()
	write := func() map[string]string {
		folder := filepath.Join(t.TempDir(), "share", "man1")
		var out, notes bytes.Buffer
		if code := run(context.Background(), "v0.1.0", []string{"man", folder}, nil, &out, &notes); code != exitOK {
			t.Fatalf("exit %d: %s", code, notes.String())
		}
		pages := map[string]string{}
		entries, err := os.ReadDir(folder)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			text, err := os.ReadFile(filepath.Join(folder, e.Name()))
			if err != nil {
				t.Fatal(err)
			}
			pages[e.Name()] = string(text)
		}
		return pages
	}
	pages := write()
	for name, text := range write() {
		if pages[name] != text {
			t.Errorf("%s differs from run to run", name)
		}
	}
	for page, wanted := range map[string][]string{
		"weir.1":              {`.TH "WEIR" 1 "" "weir v0.1.0" "weir manual"`, `weir \- A gateway`, ".BR weir\\-call (1)", ".SH EXIT STATUS", "The tool ran and answered"},
		"weir-call.1":         {`.TH "WEIR\-CALL" 1`, ".B weir call TOOL_ID", `.B \-o, \-\-output string`, ".BR weir (1)"},
		"weir-config-check.1": {".BR weir\\-config (1)"},
		"weir-selectors.1":    {".SH DESCRIPTION"},
	} {
		for _, want := range wanted {
			if !strings.Contains(pages[page], want) {
				t.Errorf("%s has no %q:\n%s", page, want, pages[page])
			}
		}
	}
	var walk func(*cobra.Command)
	walk = func(cmd *cobra.Command) {
		if _, ok := pages[manName(cmd)+".1"]; !ok && cmd.Name() != "help" && !cmd.Hidden {
			t.Errorf("%s has no page", cmd.CommandPath())
		}
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
	}
	walk(rootCommand(&process{lookupEnv: os.LookupEnv, version: "v0.1.0"}))
}

// TestRoff: no text of ours is a macro, and what is copied from a page is what was written.
func TestRoff(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		".hidden files":     `\&.hidden files`,
		"'tis":              `\&'tis`,
		`a\b --flag`:        `a\eb \-\-flag`,
		"`x` ~/^":           `\(gax\(ga \(ti/\(ha`,
		"two\nlines":        "two lines",
		"a … b":             `a \[u2026] b`,
		"plain, with . and": "plain, with . and",
	} {
		if got := roffLine(text); got != want {
			t.Errorf("roffLine(%q) = %q, want %q", text, got, want)
		}
	}
	got := roffText("One.\n\n  weir x\n  .y\nTwo.")
	if want := "One.\n.PP\n.PP\n.nf\n  weir x\n  .y\n.fi\nTwo.\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
