package bundle

import (
	"path/filepath"
	"strings"

	"github.com/weir-mcp/weir/internal/text/lazy"
)

var (
	// userFolder matches a line of user-dirs.dirs.
	userFolder = lazy.Pattern(`^XDG_(DESKTOP|DOCUMENTS|DOWNLOAD)_DIR="((?:[^"\\]|\\.)*)"$`)
	// escaped matches a character that a shell takes as it stands.
	escaped = lazy.Pattern(`\\(.)`)
	// userFolders are the names of folders in user-dirs.dirs and in Place.
	userFolders = map[string]string{"DESKTOP": "Desktop", "DOCUMENTS": "Documents", "DOWNLOAD": "Downloads"}
)

// UserFolders returns the folders for Place that a file user-dirs.dirs names. Desktops write that file
// for shells: names of folders are translated, or a person moved them. The home folder itself means
// that there is no such folder.
func UserFolders(file []byte, home string) map[string]string {
	folders := map[string]string{}
	for line := range strings.Lines(string(file)) {
		m := userFolder().FindStringSubmatch(strings.TrimSpace(line))
		if m == nil {
			continue
		}
		rest, below := strings.CutPrefix(m[2], "$HOME/")
		at := escaped().ReplaceAllString(rest, "$1")
		if below {
			at = filepath.Join(home, at)
		}
		if at = filepath.Clean(at); filepath.IsAbs(at) && at != filepath.Clean(home) {
			folders[userFolders[m[1]]] = at
		}
	}
	return folders
}
