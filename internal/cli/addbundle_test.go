package cli

import (
	"archive/zip"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
)

// notesManifest is a bundle that wants a secret, and folders with a default.
const notesManifest = `{"manifest_version":"0.3","name":"notes","version":"1.0.0","author":{"name":"Ann"},
	"server":{"type":"binary","entry_point":"server/run","mcp_config":{"command":"${__dirname}/server/run","args":["${user_config.dirs}"],"env":{"NOTES_KEY":"${user_config.key}"}}},
	"user_config":{"key":{"type":"string","title":"Key","sensitive":true,"required":true},"dirs":{"type":"directory","title":"Folders","multiple":true,"default":["${HOME}/notes"]},
	"limit":{"type":"number","title":"Limit"}}}`

const notesKey = "abcdefgh12345678"

// bundleOf packs a manifest with a script that a shell runs, and returns the file.
func bundleOf(t *testing.T, name, manifest, script string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w := zip.NewWriter(f)
	for _, member := range []struct {
		name, text string
		mode       os.FileMode
	}{{"manifest.json", manifest, 0o644}, {"server/run", "#!/bin/sh\n" + script, 0o755}} {
		header := &zip.FileHeader{Name: member.name, Method: zip.Deflate}
		header.SetMode(member.mode)
		out, err := w.CreateHeader(header)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := out.Write([]byte(member.text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// bundles returns the folders of unpacked bundles in the home.
func (h *aHome) bundles(t *testing.T) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(h.dir, ".local", "share", "weir", "bundles", "*"))
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// needsShell skips a test whose servers are shell scripts.
func needsShell(t *testing.T) {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("the servers are shell scripts")
	}
}

// TestAddBundle: a bundle is unpacked, started with its settings and listed, and undo leaves nothing.
func TestAddBundle(t *testing.T) {
	t.Parallel()
	needsShell(t)
	h := newHome(t)
	before := h.files(t)
	// The script works only from its folder, with the key and both folders.
	good := bundleOf(t, "notes.mcpb", notesManifest, `[ "$NOTES_KEY" = `+notesKey+` ] && [ "$1" = /a ] && [ "$2" = /b ] && exec `+fakeBin+"\nexit 7\n")
	args := []string{"add", good, "--yes", "--set", "key=" + notesKey, "--set", "dirs=/a"}
	h.weir(t, "add", good, "--yes").want(t, exitUsage, "--set key=VALUE")
	h.weir(t, append(args, "--set", "size=3")...).want(t, exitUsage, `no setting "size"`, "key, dirs, limit")
	h.weir(t, append(args, "--set", "limit=many")...).want(t, exitUsage, "--set limit", "a number is wanted")
	h.weir(t, append(args, "--env", "A=b")...).want(t, exitUsage, "--set KEY=VALUE")
	h.weir(t, append(args, "--dry-run")...).want(t, exitOK, "+ notes", "notes 1.0.0 by Ann, SHA-256", "its files go into")
	h.weir(t, args...).want(t, exitUnavailable, "nothing has changed") // one folder is missing
	if left := h.bundles(t); len(left) > 0 {
		t.Errorf("plans and failures leave %q", left)
	}
	sameFiles(t, "nothing added", theirs(h.files(t)), before)

	args = append(args, "--set", "dirs=/b")
	f := h.weir(t, args...).want(t, exitOK, "✓ notes", "weir undo")
	conf := h.files(t)[".config/weir/weir.yaml"]
	if !strings.Contains(conf, "${secret:NOTES_KEY}") || !strings.Contains(conf, "/weir/bundles/notes-1.0.0-") || strings.Contains(conf+f.stdout+f.stderr, notesKey) {
		t.Errorf("weir.yaml:\n%s\n%s%s", conf, f.stdout, f.stderr)
	}
	if dirs := h.bundles(t); len(dirs) != 1 {
		t.Errorf("bundles: %q", dirs)
	}
	h.weir(t, args...).want(t, exitUsage, "weir remove notes")
	h.weir(t, "secret", "ls").want(t, exitOK, "NOTES_KEY")
	h.weir(t, "undo", "--yes").want(t, exitOK, "remove folder")
	if strings.Contains(h.weir(t, "secret", "ls").stdout, "NOTES_KEY") {
		t.Error("undo left the secret")
	}
	if left := h.bundles(t); len(left) > 0 {
		t.Errorf("undo left %q", left)
	}
	sameFiles(t, "undone", theirs(h.files(t)), before)
}

// TestBundleOfTwoServers: the folder stays as long as one of them needs it.
func TestBundleOfTwoServers(t *testing.T) {
	t.Parallel()
	needsShell(t)
	h := newHome(t)
	file := bundleOf(t, "notes.dxt", notesManifest, "exec "+fakeBin+"\n")
	for _, name := range []string{"one", "two"} {
		h.weir(t, "add", file, "--name", name, "--yes", "--no-start", "--set", "key="+name+notesKey, "--set", "dirs=/"+name).want(t, exitOK)
	}
	for n, want := range []int{1, 0} {
		h.weir(t, "undo", strconv.Itoa(n+1), "--yes").want(t, exitOK)
		if dirs := h.bundles(t); len(dirs) != want {
			t.Errorf("after undo %d: %q", n+1, dirs)
		}
	}
}

// TestAddDocument adds a server of a server.json, bare and as the registry wraps it.
func TestAddDocument(t *testing.T) {
	t.Parallel()
	needsShell(t)
	h := newHome(t)
	h.installed(t, "npx")
	const server = `{"name":"io.github.me/echo","version":"1.0.0","packages":[{"registryType":"npm","identifier":"echo-mcp","version":"1.0.0",` +
		`"transport":{"type":"stdio"},"environmentVariables":[{"name":"ECHO_TOKEN","isRequired":true,"isSecret":true}]}]}`
	file := filepath.Join(t.TempDir(), "server.json")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, text := range []string{server, `{"server":` + server + `,"_meta":{}}`} {
		write(text)
		h.weir(t, "add", file, "--yes").want(t, exitUsage, "ECHO_TOKEN", "--set")
		h.weir(t, "add", file, "--yes", "--set", "ECHO_TOKEN="+notesKey).want(t, exitOK, "✓ echo")
		if conf := h.files(t)[".config/weir/weir.yaml"]; !strings.Contains(conf, "echo-mcp@1.0.0") || strings.Contains(conf, notesKey) {
			t.Errorf("weir.yaml:\n%s", conf)
		}
		h.weir(t, "undo", "--yes").want(t, exitOK)
	}
	write(strings.Replace(server, "io.github.me/echo", "echo", 1))
	h.weir(t, "add", file, "--yes").want(t, exitUsage, "server.json", "no name such as")
	write(`{"mcpServers":{"fake":{"command":"` + fakeBin + `"}}}`)
	h.weir(t, "add", file, "--yes").want(t, exitOK, "✓ fake")
	h.weir(t, "add", "x", "--yes", "--set", "a=b", "--", fakeBin).want(t, exitUsage, "--set is for")
}
