package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestFullDisk: what could not be written is an error, not a success.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	s := serve(t, "mcpServers: {}\n")
	for _, args := range [][]string{{"ls"}, {"ls", "--json"}, {"stats"}, {"ls", "--hash"}} {
		full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), weirBin, append(args, "--url", s.url)...)
		var stderr strings.Builder
		cmd.Env, cmd.Dir, cmd.Stdout, cmd.Stderr = environment(), t.TempDir(), full, &stderr
		_ = cmd.Run() // the exit code says it all
		_ = full.Close()
		if code := cmd.ProcessState.ExitCode(); code != exitInternal || !strings.Contains(stderr.String(), "no space left on device") {
			t.Errorf("weir %q ended with %d: %s", args, code, stderr.String())
		}
	}
}

// TestTableKeepsWhatIsThere: a file is written over by force alone and keeps its
// permissions, a link is not followed, and a device is written to.
func TestTableKeepsWhatIsThere(t *testing.T) {
	t.Parallel()
	a := &process{}
	write := func(name, text string, force bool) error {
		t.Helper()
		out, finish, err := createFile(a.stdout, name, force)
		if err != nil {
			return err
		}
		_, err = out.Write([]byte(text))
		return finish(err)
	}
	dir := t.TempDir()
	link, file, fresh := filepath.Join(dir, "link"), filepath.Join(dir, "file"), filepath.Join(dir, "new")
	if err := os.Symlink("file", link); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := write("/dev/full", "x", false); err == nil || !strings.Contains(err.Error(), "no space left on device") {
		t.Errorf("a full device: %v", err)
	}
	for _, force := range []bool{false, true} {
		if err := write(link, "new", force); err == nil || !strings.Contains(err.Error(), "symbolic link") {
			t.Errorf("a link, by force %t: %v", force, err)
		}
	}
	if err := write(file, "new", false); err == nil || !strings.Contains(err.Error(), "--force") {
		t.Errorf("a file that is there: %v", err)
	}
	read := func(name string) string {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Error(err)
		}
		return string(data)
	}
	if got := read(file); got != "old" {
		t.Errorf("it was written over: %s", got)
	}
	if err := write(file, "new", true); err != nil || read(file) != "new" {
		t.Errorf("by force: %v, %s", err, read(file))
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	if err := write(fresh, "new", false); err != nil || read(fresh) != "new" {
		t.Errorf("a new file: %v", err)
	}
	// One that comes while the rows are on their way stays, too, and so does a link's.
	for _, come := range []func(string) error{func(name string) error { return os.WriteFile(name, []byte("mine"), 0o600) }, func(name string) error { return os.Symlink(file, name) }} {
		late := filepath.Join(dir, "late")
		out, finish, err := createFile(a.stdout, late, false)
		if err != nil {
			t.Fatal(err)
		}
		if err := come(late); err != nil {
			t.Fatal(err)
		}
		_, err = out.Write([]byte("rows"))
		if err := finish(err); err == nil || !strings.Contains(err.Error(), "meanwhile") || read(late) == "rows" {
			t.Errorf("%v, %s", err, read(late))
		}
		if err := os.Remove(late); err != nil {
			t.Fatal(err)
		}
	}
	if left, err := filepath.Glob(filepath.Join(dir, ".*")); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// TestTableHeedsTheUmask: a new file is for whom its owner wants it to be.
func TestTableHeedsTheUmask(t *testing.T) {
	before := syscall.Umask(0o077)
	defer syscall.Umask(before)
	name := filepath.Join(t.TempDir(), "rows.csv")
	_, finish, err := createFile(terminal{}, name, false)
	if err != nil {
		t.Fatal(err)
	}
	if err := finish(nil); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(name); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}
