package backend

import (
	"errors"
	"io/fs"
	"os/user"
	"path/filepath"
	"strings"
	"testing"
)

// TestFolderDenied: an error because weir may not use the folder of its store names the user and a fix; other errors
// stay as they are.
func TestFolderDenied(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	err := folderDenied(&fs.PathError{Op: "open", Path: filepath.Join(dir, "lock"), Err: fs.ErrPermission}, dir)
	if !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), "may not use the folder "+dir) {
		t.Error(err)
	}
	if u, unknown := user.Current(); unknown == nil && !strings.Contains(err.Error(), "the user "+u.Username+",") {
		t.Errorf("no user: %v", err)
	}
	for _, other := range []error{
		&fs.PathError{Op: "open", Path: filepath.Join(dir, "lock"), Err: fs.ErrExist},
		&fs.PathError{Op: "open", Path: filepath.Join(t.TempDir(), "key.pem"), Err: fs.ErrPermission}, // not the folder's
		nil,
	} {
		if got := folderDenied(other, dir); got != other {
			t.Errorf("%v became %v", other, got)
		}
	}
}
