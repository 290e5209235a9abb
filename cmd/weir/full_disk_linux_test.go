package main

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

// TestTableKeepsWhatIsThere: rows go into a device, through a link, and into a file
// with the permissions it has.
func TestTableKeepsWhatIsThere(t *testing.T) {
	t.Parallel()
	a := &app{}
	write := func(name, text string) error {
		t.Helper()
		out, finish, err := a.create(name)
		if err != nil {
			return err
		}
		_, err = out.Write([]byte(text))
		return finish(err)
	}
	dir := t.TempDir()
	device, link, file := filepath.Join(dir, "device"), filepath.Join(dir, "link"), filepath.Join(dir, "file")
	for name, target := range map[string]string{device: "/dev/full", link: "file"} {
		if err := os.Symlink(target, name); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(file, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := write(device, "x"); err == nil || !strings.Contains(err.Error(), "no space left on device") {
		t.Errorf("a full device: %v", err)
	}
	if err := write(link, "new"); err != nil {
		t.Error(err)
	}
	for _, name := range []string{device, link} {
		if info, err := os.Lstat(name); err != nil || info.Mode()&os.ModeSymlink == 0 {
			t.Errorf("%s was replaced: %v, %v", name, info, err)
		}
	}
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	if data, err := os.ReadFile(file); err != nil || string(data) != "new" {
		t.Errorf("%q, %v", data, err)
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
	_, finish, err := (&app{}).create(name)
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
