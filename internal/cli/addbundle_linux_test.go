package cli

import (
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
