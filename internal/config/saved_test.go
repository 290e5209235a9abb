package config

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// A saved program is read with the file, its schema keeps the order of its keys, and what is wrong with it is wrong with
// the file.
func TestSavedProgramIsRead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	file := write("weir.yaml", `
programs:
  saved:
    report:
      file: report.js
      description: Reports.
      input_schema: {type: object, properties: {z: {type: string, enum: [one, "2"]}, a: {default: 1.50, minimum: 3}}, required: [z], additionalProperties: false}
`)
	opts := Options{ReadFile: os.ReadFile, CheckProgram: func(p *SavedProgram) error {
		if strings.Contains(p.Source(), "(((") {
			return errors.New("line 1, column 3: unexpected end")
		}
		return nil
	}}
	load := func() (*Config, string) {
		c, _, err := Load(file, opts)
		if err != nil {
			return nil, err.Error()
		}
		return c, ""
	}
	if _, fault := load(); !strings.Contains(fault, "weir.yaml:5:7: programs.saved.report.file:") || !strings.Contains(fault, "there is no such file") {
		t.Error(fault)
	}
	write("report.js", "\ufeffreturn 1")
	c, fault := load()
	if fault != "" {
		t.Fatal(fault)
	}
	p := c.Programs.Saved[0]
	want := `{"type":"object","properties":{"z":{"type":"string","enum":["one","2"]},"a":{"default":1.5,"minimum":3}},"required":["z"],"additionalProperties":false}`
	if p.Name != "report" || p.Source() != "return 1" || p.File != filepath.Join(dir, "report.js") || string(p.InputSchema) != want {
		t.Errorf("%+v %s", p, p.InputSchema)
	}
	for text, says := range map[string]string{
		"(((": "programs.saved.report: report.js: line 1, column 3: unexpected end", " \n": "is empty", "return '\xff'": "is not text in UTF-8",
		strings.Repeat(" ", MaxProgram+1): "the most of a program",
	} {
		write("report.js", text)
		if _, fault := load(); !strings.Contains(fault, says) {
			t.Errorf("%q, want %q", fault, says)
		}
	}
}

// Watch tells of a changed file of a saved program, also of one that the last reading refused, and of one that the
// configuration has since a reload.
func TestWatchSavedPrograms(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(dir, "weir.yaml")
	write("weir.yaml", `programs: {saved: {a: {file: a.js, description: A.}}}`)
	write("a.js", "return 1")
	opts := Options{ReadFile: os.ReadFile, CheckProgram: func(p *SavedProgram) error {
		if p.Source() == "bad" {
			return errors.New("it is bad")
		}
		return nil
	}}
	c, _, err := Load(file, opts)
	if err != nil {
		t.Fatal(err)
	}
	told := make(chan string, 100)
	var done sync.WaitGroup
	defer done.Wait()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done.Go(func() {
		if err := Watch(ctx, c, opts, func(c *Config, _ []Warning, err error) {
			text := ""
			if err != nil {
				text = "refused"
			} else {
				for _, p := range c.Programs.Saved {
					text += p.Name + " " + p.Source() + ";"
				}
			}
			told <- text
		}); err != nil {
			t.Error(err)
		}
	})
	expect := func(want string) {
		t.Helper()
		for {
			select {
			case got := <-told:
				if got == want {
					return
				}
			case <-time.After(10 * time.Second):
				t.Fatalf("nothing told of %q", want)
			}
		}
	}
	write("a.js", "return 2")
	expect("a return 2;")
	write("a.js", "bad")
	expect("refused")
	write("a.js", "return 3")
	expect("a return 3;")
	write("b.js", "bad")
	write("weir.yaml", `programs: {saved: {a: {file: a.js, description: A.}, b: {file: b.js, description: B.}}}`)
	expect("refused")
	write("b.js", "return 4")
	expect("a return 3;b return 4;")
	if was := Diff(c, c); !was.Empty() {
		t.Errorf("%+v", was)
	}
}
