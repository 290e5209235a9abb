package journal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-mcp/weir/internal/json/splice"
	"github.com/weir-mcp/weir/internal/testkit/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

// newJournal returns a journal that reads files again after a short time.
func newJournal(t *testing.T) *Journal {
	t.Helper()
	j, err := Open(filepath.Join(t.TempDir(), "state", "journal"))
	if err != nil {
		t.Fatal(err)
	}
	j.settle = time.Millisecond
	return j
}

func write(t *testing.T, name, text string) string {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o640); err != nil {
		t.Fatal(err)
	}
	return name
}

func contents(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

var weirEntry = splice.Object{{Key: "command", Value: "/usr/bin/weir"}, {Key: "args", Value: []any{"attach"}}}

// connect sets the entry of weir and takes the server "a" out.
func connect(t *testing.T, j *Journal, names ...string) Record {
	t.Helper()
	op := j.Begin("connect", "weir in")
	op.OnUndo("remove secret", "KEY")
	for _, name := range names {
		edits := []Edit{{Path: splice.Path{"mcpServers", "weir"}, Value: weirEntry}}
		if data, _ := os.ReadFile(name); bytes.Contains(data, []byte(`"a"`)) {
			edits = append(edits, Edit{Path: splice.Path{"mcpServers", "a"}, Remove: true})
		}
		if _, err := op.Edit(name, splice.JSON, edits); err != nil {
			t.Fatal(err)
		}
	}
	r, err := op.Apply(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

const client = `{
    // mine
    "big": 12345678901234567890,
    "mcpServers": {
        "a": { "command": "npx" }, // tail
        "b": { "command": "b" }
    }
}`

func TestUndoToTheByte(t *testing.T) {
	for name, before := range map[string]string{
		"servers": client, "crlf": strings.ReplaceAll(client, "\n", "\r\n"), "bom": "\uFEFF" + client,
		"empty": "", "object": "{}", "lines": "{\n}\n", "null": `{"mcpServers": null}`, "taken": `{"mcpServers":{"weir":{"command":"old"}}}`,
	} {
		t.Run(name, func(t *testing.T) {
			j := newJournal(t)
			file := write(t, filepath.Join(t.TempDir(), "c.json"), before)
			connect(t, j, file)
			if contents(t, file) == before {
				t.Fatal("nothing was changed")
			}
			u, err := j.Undo(t.Context(), 0)
			if err != nil || contents(t, file) != before || !u.Files[0].Exact {
				t.Errorf("%v, %+v\n%s", err, u, contents(t, file))
			}
			if info, _ := os.Stat(file); runtime.GOOS != "windows" && info.Mode().Perm() != 0o640 {
				t.Errorf("mode %v", info.Mode())
			}
			if len(u.Steps) != 1 || u.Steps[0] != (Step{"remove secret", "KEY"}) {
				t.Errorf("steps %v", u.Steps)
			}
			if _, err := j.Undo(t.Context(), 1); !errors.Is(err, ErrNothing) {
				t.Errorf("undone twice: %v", err)
			}
			if _, err := j.Undo(t.Context(), 0); !errors.Is(err, ErrNothing) {
				t.Errorf("undone twice: %v", err)
			}
			// The undo can be taken back, and then the operation again.
			if _, err := j.Undo(t.Context(), u.By); err != nil || contents(t, file) == before {
				t.Errorf("undo of the undo: %v", err)
			}
			if _, err := j.Undo(t.Context(), 1); err != nil || contents(t, file) != before {
				t.Errorf("second undo: %v", err)
			}
		})
	}
}

// TestUndoInEachFormat goes through a file as weir left it, and through one with a key more.
func TestUndoInEachFormat(t *testing.T) {
	for _, test := range []struct {
		format       splice.Format
		before, more string
		path, cut    splice.Path
	}{
		{splice.TOML, "model = 1 # c\n\n[mcp_servers.a]  # c\nargs = [ \"-y\" ]  # odd\n\n[tui]\n", "x = 2 # later\n", splice.Path{"mcp_servers", "weir"}, splice.Path{"mcp_servers", "a"}},
		{splice.TOML, "[[mcp_servers]]\nname = \"a\" # c\n", "x = 2 # later\n", splice.Path{"mcp_servers", "name=weir"}, splice.Path{"mcp_servers", "name=a"}},
		{splice.YAML, "k: 1 # c\n\nextensions:\n    a:   # odd\n        cmd: x\n    b: {}\n", "x: 2 # later\n", splice.Path{"extensions", "weir"}, splice.Path{"extensions", "a"}},
		{splice.YAML, "mcpServers:\n- name: a # c\n- name: b\n", "x: 2 # later\n", splice.Path{"mcpServers", "name=weir"}, splice.Path{"mcpServers", "name=a"}},
	} {
		for _, more := range []string{"", test.more} {
			j, name := newJournal(t), write(t, filepath.Join(t.TempDir(), "c"), test.before)
			op := j.Begin("connect", "")
			if _, err := op.Edit(name, test.format, []Edit{{Path: test.path, Value: weirEntry}, {Path: test.cut, Remove: true}}); err != nil {
				t.Fatal(err)
			}
			if _, err := op.Apply(t.Context()); err != nil {
				t.Fatal(err)
			}
			write(t, name, more+contents(t, name))
			u, err := j.Undo(t.Context(), 0)
			if err != nil || contents(t, name) != more+test.before || u.Files[0].Exact != (more == "") {
				t.Errorf("%s %v: %v\n%s\nwant\n%s", test.format, test.path, err, contents(t, name), more+test.before)
			}
		}
	}
}

// TestUndoAgainstAWriter has a program that puts weir's entry back once from its memory.
func TestUndoAgainstAWriter(t *testing.T) { synctest.Test(t, testUndoAgainstAWriter) }

func testUndoAgainstAWriter(t *testing.T) {
	j, name := newJournal(t), write(t, filepath.Join(t.TempDir(), "c.json"), client)
	connect(t, j, name)
	connected := strings.Replace(contents(t, name), "// mine", "// theirs", 1)
	j.settle = 150 * time.Millisecond
	done := make(chan error, 1)
	go func() {
		for { // The first undo has its number when the file changes.
			if data, _ := os.ReadFile(name); string(data) == client {
				done <- replaceFile(name, []byte(connected), 0o640, nil)
				return
			}
			time.Sleep(5 * time.Millisecond)
		}
	}()
	_, err := j.Undo(t.Context(), 0)
	if err := errors.Join(err, <-done); err != nil || strings.Contains(contents(t, name), "weir") || !strings.Contains(contents(t, name), "// theirs") {
		t.Errorf("%v\n%s", err, contents(t, name))
	}
}

func TestUndoOfANewFile(t *testing.T) {
	j, file := newJournal(t), filepath.Join(t.TempDir(), "new", "c.json")
	connect(t, j, file)
	if info, err := os.Stat(file); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Fatal(err, info)
	}
	if _, err := j.Undo(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(file); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the file stays: %v", err)
	}
}

func TestUndoAfterOthersChangedTheFile(t *testing.T) {
	dir := t.TempDir()
	for _, test := range []struct {
		name   string
		change func(string) string
		want   string
		check  func(UndoneFile) bool
	}{
		{"another key", func(s string) string { return strings.Replace(s, "// mine", "// mine\n    \"theme\": 1,", 1) },
			strings.Replace(client, "// mine", "// mine\n    \"theme\": 1,", 1), func(f UndoneFile) bool { return !f.Exact && len(f.Kept)+len(f.Taken) == 0 }},
		{"the name of a is taken", func(s string) string { return strings.Replace(s, `"b": {`, `"a": 7, "b": {`, 1) },
			"", func(f UndoneFile) bool { return len(f.Taken) == 1 && f.Taken[0].String() == "mcpServers.a" }},
		{"our entry has another name", func(s string) string { return strings.Replace(s, `"weir": {`, `"gateway": {`, 1) },
			client, func(f UndoneFile) bool { return len(f.Kept) == 0 }},
		{"another's entry has our name", func(s string) string { return strings.Replace(s, `/usr/bin/weir`, `/other`, 1) },
			"", func(f UndoneFile) bool { return len(f.Kept) == 1 }},
	} {
		t.Run(test.name, func(t *testing.T) {
			j, file := newJournal(t), write(t, filepath.Join(dir, strings.ReplaceAll(test.name, " ", "-")), client)
			connect(t, j, file)
			changed := test.change(contents(t, file))
			if changed == contents(t, file) {
				t.Fatal("the test changes nothing")
			}
			write(t, file, changed)
			u, err := j.Undo(t.Context(), 0)
			if err != nil {
				t.Fatal(err)
			}
			if test.want != "" && contents(t, file) != test.want {
				t.Errorf("got\n%s\nwant\n%s", contents(t, file), test.want)
			}
			if !test.check(u.Files[0]) {
				t.Errorf("report %+v\n%s", u.Files[0], contents(t, file))
			}
		})
	}
}

func TestSeveralFiles(t *testing.T) {
	j, dir := newJournal(t), t.TempDir()
	one, two := write(t, filepath.Join(dir, "1"), client), write(t, filepath.Join(dir, "2"), "{}")
	connect(t, j, one, two)
	connect(t, j, write(t, filepath.Join(dir, "3"), "{}"))
	if _, err := j.Undo(t.Context(), 1); err != nil || contents(t, one) != client || contents(t, two) != "{}" {
		t.Errorf("%v", err)
	}
	all, err := j.List()
	if err != nil || len(all) != 3 || all[0].UndoneBy != 3 || all[2].Undoes != 1 || !all[1].Done {
		t.Errorf("%v %+v", err, all)
	}
	// A file that changed since the plan stops all of them.
	op := j.Begin("connect", "x")
	for _, name := range []string{one, two} {
		if _, err := op.Edit(name, splice.JSON, []Edit{{Path: splice.Path{"x"}, Value: 1}}); err != nil {
			t.Fatal(err)
		}
	}
	write(t, two, `{"y":1}`)
	if _, err := op.Apply(t.Context()); !errors.Is(err, ErrChanged) || contents(t, one) != client || contents(t, two) != `{"y":1}` {
		t.Errorf("%v\n%s\n%s", err, contents(t, one), contents(t, two))
	}
	if again, _ := j.List(); len(again) != 3 {
		t.Errorf("%d operations", len(again))
	}
}

func TestPlanShowsADiff(t *testing.T) {
	j, file := newJournal(t), write(t, filepath.Join(t.TempDir(), "c.json"), "{\n  \"key\": \"s3cret\",\n  \"x\": 1\n}\n")
	op := j.Begin("connect", "")
	c, err := op.Edit(file, splice.JSON, []Edit{{Path: splice.Path{"weir"}, Value: "y"}})
	if err != nil {
		t.Fatal(err)
	}
	got := c.Diff(func(s string) string { return strings.ReplaceAll(s, "s3cret", "…") })
	want := "--- " + file + "\n+++ " + file + "\n@@ -1 +1 @@\n {\n   \"key\": \"…\",\n-  \"x\": 1\n+  \"x\": 1,\n+  \"weir\": \"y\"\n }\n"
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if contents(t, file) != string(c.Before) || len(op.Changes()) != 1 {
		t.Error("the plan changed the file")
	}
}

func TestLinksAndReadOnly(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("links need rights on Windows")
	}
	j, dir := newJournal(t), t.TempDir()
	real, link, dangling := write(t, filepath.Join(dir, "real"), "{}"), filepath.Join(dir, "link"), filepath.Join(dir, "dangling")
	for name, to := range map[string]string{link: "real", dangling: "later"} {
		if err := os.Symlink(to, name); err != nil {
			t.Fatal(err)
		}
	}
	connect(t, j, link, dangling)
	for _, name := range []string{link, dangling} {
		if to, err := os.Readlink(name); err != nil || !strings.Contains(contents(t, name), "weir") {
			t.Errorf("%s %s %v", name, to, err)
		}
	}
	if err := os.Chmod(real, 0o400); err != nil {
		t.Fatal(err)
	}
	if _, err := j.Begin("x", "").Edit(link, splice.JSON, []Edit{{Path: splice.Path{"x"}, Value: 1}}); err == nil || !strings.Contains(err.Error(), "read-only") {
		t.Errorf("%v", err)
	}
	if err := (file{}).writable("/nix/store/abc/settings.json"); err == nil || !strings.Contains(err.Error(), "Nix store") {
		t.Errorf("%v", err)
	}
}

// TestWriterFromMemory has a program that rewrites the file from its memory all the time, for a while.
func TestWriterFromMemory(t *testing.T) { synctest.Test(t, testWriterFromMemory) }

func testWriterFromMemory(t *testing.T) {
	j := newJournal(t)
	j.settle = 220 * time.Millisecond
	name := write(t, filepath.Join(t.TempDir(), "c.json"), client)
	var wg sync.WaitGroup
	written := make(chan string, 1)
	wg.Go(func() {
		text := client
		for i := range 5 {
			text = strings.Replace(client, "// mine", fmt.Sprintf("// mine %d", i), 1)
			_ = os.WriteFile(name, []byte(text), 0o640)
			time.Sleep(50 * time.Millisecond)
		}
		written <- text
	})
	for { // A plan that is overtaken is made again, as the caller does.
		op := j.Begin("connect", "")
		if _, err := op.Edit(name, splice.JSON, []Edit{{Path: splice.Path{"mcpServers", "weir"}, Value: weirEntry}}); err != nil {
			continue // the file is being written
		}
		_, err := op.Apply(t.Context())
		if err == nil {
			break
		}
		if !errors.Is(err, ErrChanged) {
			t.Fatal(err)
		}
	}
	wg.Wait()
	last := <-written
	out, _, err := splice.Remove([]byte(contents(t, name)), splice.JSON, splice.Path{"mcpServers", "weir"})
	if err != nil || string(out) != last {
		t.Errorf("%v\n%s\nwant\n%s", err, out, last)
	}
	if _, err := j.Undo(t.Context(), 0); err != nil || contents(t, name) != last {
		t.Errorf("%v\n%s", err, contents(t, name))
	}
}

// TestWriterThatNeverEnds has one that writes over each change: the user is told.
func TestWriterThatNeverEnds(t *testing.T) { synctest.Test(t, testWriterThatNeverEnds) }

func testWriterThatNeverEnds(t *testing.T) {
	j := newJournal(t)
	j.settle = 100 * time.Millisecond
	name := write(t, filepath.Join(t.TempDir(), "c.json"), client)
	op := j.Begin("connect", "")
	if _, err := op.Edit(name, splice.JSON, []Edit{{Path: splice.Path{"mcpServers", "weir"}, Value: weirEntry}}); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		for ctx.Err() == nil {
			if data, _ := os.ReadFile(name); bytes.Contains(data, []byte("weir")) {
				_ = replaceFile(name, []byte(client), 0o640, nil)
			}
			time.Sleep(20 * time.Millisecond)
		}
	})
	_, err := op.Apply(t.Context())
	stop()
	wg.Wait()
	if !errors.Is(err, ErrLost) || !strings.Contains(err.Error(), name) || contents(t, name) != client {
		t.Errorf("%v", err)
	}
}

func TestConcurrentJournals(t *testing.T) {
	dir := t.TempDir()
	name := write(t, filepath.Join(dir, "c.json"), "{}")
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			j, err := Open(filepath.Join(dir, "journal"))
			if err != nil {
				t.Error(err)
				return
			}
			j.settle = 0
			for {
				op := j.Begin("add", "")
				if _, err := op.Edit(name, splice.JSON, []Edit{{Path: splice.Path{"s", fmt.Sprint(i)}, Value: i}}); err != nil {
					t.Error(err)
					return
				}
				if _, err := op.Apply(t.Context()); err == nil {
					return
				} else if !errors.Is(err, ErrChanged) {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	v, _, err := splice.Lookup([]byte(contents(t, name)), splice.JSON, splice.Path{"s"})
	if o, _ := v.(splice.Object); err != nil || len(o) != 8 {
		t.Errorf("%v %v", v, err)
	}
	j, _ := Open(filepath.Join(dir, "journal"))
	if all, err := j.List(); err != nil || len(all) != 8 {
		t.Errorf("%d operations, %v", len(all), err)
	}
}

// TestCrash ends an operation between its journal and its files, and between the files.
func TestCrash(t *testing.T) {
	j, dir := newJournal(t), t.TempDir()
	one, two := write(t, filepath.Join(dir, "1"), client), write(t, filepath.Join(dir, "2"), "{}")
	op := j.Begin("connect", "")
	for _, name := range []string{one, two} {
		if _, err := op.Edit(name, splice.JSON, []Edit{{Path: splice.Path{"mcpServers", "weir"}, Value: weirEntry}}); err != nil {
			t.Fatal(err)
		}
	}
	op.record.N, _ = j.create()
	if err := op.save(); err != nil {
		t.Fatal(err)
	}
	c := op.changes[0]
	if err := put(c.target, c.was, c.After, false, c.record.Mode); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, ".weir-1.tmp"), "half")
	if all, err := j.List(); err != nil || len(all) != 1 || all[0].Done {
		t.Errorf("%v %+v", err, all)
	}
	if _, err := j.Undo(t.Context(), 0); err != nil || contents(t, one) != client || contents(t, two) != "{}" {
		t.Errorf("%v\n%s", err, contents(t, one))
	}
	// A failed write leaves the file and no temporary file.
	check := func() (os.FileInfo, error) { return nil, errors.New("stop") }
	if err := replaceFile(one, []byte("x"), 0o600, check); err == nil || contents(t, one) != client {
		t.Errorf("%v", err)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, ".weir-*")); len(left) != 1 {
		t.Errorf("left %v", left)
	}
}

func TestBoundsAndModes(t *testing.T) {
	j := newJournal(t)
	j.settle = 0
	name := write(t, filepath.Join(t.TempDir(), "c.json"), "{}")
	for i := range maxOperations + 3 {
		op := j.Begin("set", "")
		if _, err := op.Edit(name, splice.JSON, []Edit{{Path: splice.Path{"n"}, Value: i}}); err != nil {
			t.Fatal(err)
		}
		if _, err := op.Apply(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	all, err := j.List()
	if err != nil || len(all) != maxOperations || all[len(all)-1].N != maxOperations+3 {
		t.Errorf("%d operations, %v", len(all), err)
	}
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no file modes")
	}
	err = filepath.Walk(j.dir, func(path string, info os.FileInfo, err error) error {
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
