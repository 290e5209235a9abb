//go:build unix

package cli

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestFIFOsAreNotRead: a folder from elsewhere may have a FIFO under any name that weir reads. Opening
// one would wait for ever, so each command says what it is.
func TestFIFOsAreNotRead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"weir.yaml", "key.pem", "a.env", "bundle.mcpb", "calls.yaml", "weir.lock"} {
		if err := unix.Mkfifo(filepath.Join(dir, name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	at := func(name string) string { return filepath.Join(dir, name) }
	const why = "no regular file"
	weir(t, "config", "check", at("weir.yaml")).want(t, exitUsage, why)
	for _, args := range [][]string{
		{"serve", "--config"}, {"ls", "--config"}, {"doctor", "--config"}, {"config", "show", "--config"}, {"policy", "explain", "a:b", "--config"},
		{"trust"}, {"trust", "diff", "--config"}, {"add"}, {"import"},
	} {
		got := weir(t, append(args, at("weir.yaml"))...)
		if got.code == exitOK {
			t.Errorf("%v: %+v", args, got)
		}
	}
	weir(t, "add", at("bundle.mcpb"), "--yes").want(t, exitUsage, why)
	config := at("mine.yaml")
	if err := os.WriteFile(config, []byte("mcpServers:\n  a: {command: a, env_file: a.env}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	weir(t, "config", "check", config).want(t, exitOK, why)
}
