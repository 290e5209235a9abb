package stdio

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/weir-mcp/weir/internal/host/child"
)

// Reasons for a failed start, each with a remedy. They do not show the whole PATH: it is long, and
// the text after it would be cut.
var (
	errNoSuchFile  = errors.New("there is no such file; correct the path in command")
	errInterpreter = errors.New("the file is there, but not the interpreter that its first line names; install that")
	errNotProgram  = errors.New("the file may not be executed; make it executable, or correct command")
)

// Check returns the reason why c could not be started, as far as it can be found without starting
// it. It returns nil if no fault is known.
func Check(c Command) error {
	path, err := child.Find(c.Path, c.Env)
	if err == nil {
		err = checkDir(c.Dir)
	}
	if err != nil {
		return err
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(c.Dir, path)
	}
	if _, err := exec.LookPath(path); err != nil {
		var failed *exec.Error
		if errors.As(err, &failed) {
			err = failed.Err
		}
		return whyNot(path, c.Dir, err)
	}
	return nil
}

// checkDir reports a fault of the working directory. The system would report it as a fault of the
// program.
func checkDir(dir string) error {
	if dir == "" {
		return nil
	}
	info, err := os.Stat(dir)
	if err == nil && info.IsDir() {
		// Looking up a name in a directory requires the right to enter it.
		_, err = os.Stat(dir + string(os.PathSeparator) + ".")
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("its working directory %q does not exist; create it, or correct cwd", dir)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("its working directory %q may not be entered; grant that, or correct cwd", dir)
	case err != nil:
		return fmt.Errorf("its working directory cannot be used; correct cwd: %w", err)
	case !info.IsDir():
		return fmt.Errorf("its working directory %q is not a directory; correct cwd", dir)
	}
	return nil
}

// whyNot explains an error of the system about the program at path, if a clearer text is known.
func whyNot(path, dir string, err error) error {
	if !filepath.IsAbs(path) {
		path = filepath.Join(dir, path)
	}
	_, statErr := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && statErr == nil:
		return errInterpreter
	case errors.Is(err, fs.ErrNotExist):
		return errNoSuchFile
	case errors.Is(err, fs.ErrPermission):
		return errNotProgram
	}
	return err
}
