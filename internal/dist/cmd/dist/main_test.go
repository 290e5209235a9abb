package main

import (
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// TestRefusals: the command names what is wrong, and writes nothing.
func TestRefusals(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	license := write("LICENSE", "x")
	text := write("weir", "no program")
	test, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	here := runtime.GOOS + "/" + runtime.GOARCH
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"-version", "1.2.3"}, "-time \"\" is neither"},
		{[]string{"-version", "1.2.3", "-time", "1795345200"}, "at least one binary"},
		{[]string{"-version", "1.2.3", "-time", "1795345200", "-binary", "linux"}, "is not OS/ARCH=FILE"},
		{[]string{"-version", "1.2.3", "-time", "1795345200", "-binary", "plan9/amd64=" + text}, "no package is made for plan9/amd64"},
		{[]string{"-version", "1.2.3", "-time", "1795345200", "-binary", here + "=" + text}, "no program that Go built"},
		{[]string{"-version", "1.2.3", "-time", "1795345200", "-binary", here + "=" + test}, "not github.com/weir-mcp/weir/cmd/weir"},
		{[]string{"-version", "1.2.3", "-time", "1795345200", "-artifacts", write("artifacts.json", "[]")}, "names no binary"},
		{[]string{"more"}, "one argument too many"},
	} {
		out := filepath.Join(folder, "out")
		err := run(append([]string{"-license", license, "-out", out}, c.args...), io.Discard, io.Discard)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %s", c.args, err, c.want)
		}
		if _, err := os.Stat(out); err == nil {
			t.Errorf("%q: something was written", c.args)
		}
	}
}

// TestArtifacts: the binaries of GoReleaser's list, and nothing else of it.
func TestArtifacts(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "dist")
	if err := os.Mkdir(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	list := filepath.Join(folder, "artifacts.json")
	text := `[{"name":"weir","path":"dist/weir_linux_amd64_v1/weir","goos":"linux","goarch":"amd64","type":"Binary"},
		{"name":"weir.tar.gz","path":"dist/weir.tar.gz","goos":"linux","goarch":"amd64","type":"Archive"}]`
	if err := os.WriteFile(list, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := goreleaserBinaries(list)
	want := "linux/amd64=" + filepath.Join(folder, "weir_linux_amd64_v1", "weir")
	if err != nil || len(got) != 1 || got[0] != want {
		t.Errorf("%q, %v; want %q", got, err, want)
	}
}
