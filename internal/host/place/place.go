package place

import (
	"errors"
	"strings"
)

// weir is the name of weir's folders.
const weir = "weir"

// Env is the part of a system that decides where files are.
type Env struct {
	// OS is the system, in the form of runtime.GOOS.
	OS string
	// Lookup reads a variable of the environment; os.LookupEnv has the shape.
	Lookup func(name string) (value string, ok bool)
}

// Config returns the path of the person's configuration, which may not exist.
func (e Env) Config() (string, error) {
	if e.OS == "windows" {
		return e.below("APPDATA, and USERPROFILE", []root{{"APPDATA", nil}, {"USERPROFILE", []string{"AppData", "Roaming"}}}, "weir.yaml")
	}
	return e.below("XDG_CONFIG_HOME, and HOME", []root{{"XDG_CONFIG_HOME", nil}, {"HOME", []string{".config"}}}, "weir.yaml")
}

// State returns the state folder, which may not exist. [Write] makes it.
func (e Env) State() (string, error) {
	if e.OS == "windows" {
		return e.below("LOCALAPPDATA, and USERPROFILE", []root{{"LOCALAPPDATA", nil}, {"USERPROFILE", []string{"AppData", "Local"}}})
	}
	return e.below("XDG_STATE_HOME, and HOME", []root{{"XDG_STATE_HOME", nil}, {"HOME", []string{".local", "state"}}})
}

// Data returns the folder of files that weir keeps for long and did not write itself, such as unpacked
// servers. It may not exist; [MakeFolder] makes it.
func (e Env) Data() (string, error) {
	if e.OS == "windows" {
		return e.State()
	}
	return e.below("XDG_DATA_HOME, and HOME", []root{{"XDG_DATA_HOME", nil}, {"HOME", []string{".local", "share"}}})
}

// root is a variable with a folder, and the way from there.
type root struct {
	variable string
	way      []string
}

// below returns weir's path below the first root whose variable is an absolute path. It ignores
// relative paths, as the XDG base directory specification requires.
func (e Env) below(names string, roots []root, file ...string) (string, error) {
	for _, r := range roots {
		dir, ok := e.Lookup(r.variable)
		if !ok || !e.absolute(dir) {
			continue
		}
		parts := append([]string{strings.TrimRight(dir, e.separators())}, r.way...)
		return strings.Join(append(append(parts, weir), file...), e.separators()[:1]), nil
	}
	return "", errors.New("weir has no folder for its files: none of " + names + " is an absolute path")
}

// separators returns the path separators of the system; the first one joins.
func (e Env) separators() string {
	if e.OS == "windows" {
		return `\/`
	}
	return "/"
}

// absolute reports whether a path starts at the root of a file system.
func (e Env) absolute(dir string) bool {
	if e.OS != "windows" {
		return strings.HasPrefix(dir, "/")
	}
	drive := len(dir) > 2 && dir[1] == ':' && strings.ContainsRune(e.separators(), rune(dir[2]))
	return drive || strings.HasPrefix(dir, `\\`)
}
