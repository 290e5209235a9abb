package bundle_test

import (
	"maps"
	"testing"

	"github.com/weir-mcp/weir/internal/setup/bundle"
)

// TestUserFolders reads files as xdg-user-dirs-update writes them, and others.
func TestUserFolders(t *testing.T) {
	for name, tc := range map[string]struct {
		file string
		want map[string]string
	}{
		"translated": {
			"# This file is written by xdg-user-dirs-update\nXDG_DESKTOP_DIR=\"$HOME/Schreibtisch\"\nXDG_DOWNLOAD_DIR=\"/data/Down \\\"loads\\\"\"\nXDG_MUSIC_DIR=\"$HOME/Musik\"\nXDG_DOCUMENTS_DIR=\"$HOME/a/../Dokumente/\"\n",
			map[string]string{"Desktop": "/home/ann/Schreibtisch", "Downloads": `/data/Down "loads"`, "Documents": "/home/ann/Dokumente"},
		},
		"none":                {"XDG_DESKTOP_DIR=\"$HOME/\"\nXDG_DOCUMENTS_DIR=\"$HOME/.\"\n", map[string]string{}},
		"relative, or a text": {"XDG_DESKTOP_DIR=\"Desktop\"\nXDG_DOCUMENTS_DIR=\"$(id)/x\"\nXDG_DOWNLOAD_DIR=$HOME/x\nXDG_DESKTOP_DIR=\"\"\n", map[string]string{}},
		"empty":               {"", map[string]string{}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := bundle.UserFolders([]byte(tc.file), "/home/ann"); !maps.Equal(got, tc.want) {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}
