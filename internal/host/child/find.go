package child

import (
	"errors"
	"os"
	"os/exec"
	"strings"
)

// Reasons why there is no program, each with a remedy. They do not show the whole PATH: it is long, and the text after it
// would be cut.
var (
	errNoCommand = errors.New("no command is given")
	errNotInPath = errors.New("not found in PATH; install it, or set command to its full path")
)

// Find returns the path of a program, which it looks up in the PATH of env and not of this process. A file with a slash is
// returned as it is.
func Find(file string, env []string) (string, error) {
	if file == "" {
		return "", errNoCommand
	}
	if strings.ContainsRune(file, os.PathSeparator) {
		return file, nil
	}
	for i := len(env) - 1; i >= 0; i-- {
		path, ok := strings.CutPrefix(env[i], "PATH=")
		if !ok {
			continue
		}
		for dir := range strings.SplitSeq(path, string(os.PathListSeparator)) {
			if full, err := exec.LookPath(dir + string(os.PathSeparator) + file); dir != "" && err == nil {
				return full, nil
			}
		}
		return "", errNotInPath
	}
	full, err := exec.LookPath(file)
	if err != nil {
		return "", errNotInPath
	}
	return full, nil
}
