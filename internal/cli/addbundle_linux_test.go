package cli

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestBundleAsks: a person is asked for the settings, and a secret is not shown.
func TestBundleAsks(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	file := bundleOf(t, "notes.mcpb", notesManifest, `[ "$NOTES_KEY" = `+notesKey+` ] && [ "$1" = /a ] && [ "$2" = /b ] && exec `+fakeBin+"\nexit 7\n")
	env := slices.DeleteFunc(slices.Clone(h.env), func(s string) bool { return strings.HasPrefix(s, "@") })
	s := atTerminal(t, append(env, "add", file)...)
	s.answer("Key:", notesKey+"\n")
	s.answer("Folders, one at a time; an empty line ends ["+h.dir+"/notes]:", "/a\n")
	s.answer("an empty line ends:", "/b\n")
	s.typed("\n")
	s.answer("Limit:", "many\n")
	s.answer("No: a number is wanted.", "5\n")
	s.answer("Make these changes?", "y\n")
	s.end(exitOK)
	if strings.Contains(s.screen.String()+s.stdout.String(), notesKey) {
		t.Errorf("the key is shown: %s", s.screen)
	}
}

// TestBundleFolders: a folder that the desktop has under a translated name is that of the manifest.
func TestBundleFolders(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	if err := os.WriteFile(filepath.Join(h.dir, ".config", "user-dirs.dirs"), []byte("XDG_DESKTOP_DIR=\"$HOME/Schreibtisch\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	manifest := strings.Replace(notesManifest, "${HOME}/notes", "${DESKTOP}", 1)
	file := bundleOf(t, "notes.mcpb", manifest, `[ "$1" = "`+h.dir+`/Schreibtisch" ] && exec `+fakeBin+"\nexit 7\n")
	h.weir(t, "add", file, "--yes", "--set", "key="+notesKey).want(t, exitOK, "✓ notes")
}
