package clients

import (
	"path"
	"slices"
	"strings"
)

// Environment is the machine of the clients.
type Environment struct {
	// OS is linux, darwin or windows, as in runtime.GOOS.
	OS string

	// Home is the user's home folder.
	Home string

	// Getenv reads a variable of the environment; os.Getenv has the shape.
	Getenv func(name string) string

	// Exists reports whether there is a file or folder at a path. It must not open it: reading the
	// data of other applications makes macOS ask the user.
	Exists func(path string) bool

	// Names returns the names within a folder, none for a folder that cannot be listed.
	Names func(folder string) []string
}

// get reads a variable; without Getenv none is set.
func (e Environment) get(name string) string {
	if e.Getenv == nil {
		return ""
	}
	return e.Getenv(name)
}

// separator is the character between the parts of a path on this system.
func (e Environment) separator() string {
	if e.OS == "windows" {
		return `\`
	}
	return "/"
}

// or returns the value of a variable that holds a folder, or the path of another template.
func (e Environment) or(name, template string) string {
	if value := e.get(name); value != "" {
		return value
	}
	return e.path(template)
}

// path expands a template of the table. A template starts with one of
//
//	~              the home folder
//	$CFG           the folder for the settings of desktop applications
//	$XDG           ~/.config, and %APPDATA% on Windows
//	$CONFIG        ~/.config on every system
//	$GS            globalStorage of VS Code
//	$APPDATA       %APPDATA%
//	$LOCALAPPDATA  %LOCALAPPDATA%
//	$NAME:-~/x     the folder in the variable NAME, else ~/x
//
// XDG_CONFIG_HOME replaces ~/.config where applications follow it. Slashes separate the parts of a
// template on every system.
func (e Environment) path(template string) string {
	root, rest, _ := strings.Cut(template, "/")
	if name, fallback, ok := strings.Cut(root, ":-"); ok {
		// The fallback is one folder of the home: $CODEX_HOME:-~/.codex/config.toml.
		folder, after, _ := strings.Cut(rest, "/")
		return e.join(e.or(name[1:], fallback+"/"+folder), after)
	}
	switch root {
	case "~":
		return e.join(e.Home, rest)
	case "$CONFIG":
		return e.join(e.or("XDG_CONFIG_HOME", "~/.config"), rest)
	case "$XDG":
		if e.OS != "windows" {
			return e.path("$CONFIG/" + rest)
		}
		return e.path("$APPDATA/" + rest)
	case "$CFG":
		switch e.OS {
		case "windows":
			return e.path("$APPDATA/" + rest)
		case "darwin":
			return e.path("~/Library/Application Support/" + rest)
		}
		return e.path("$CONFIG/" + rest)
	case "$GS":
		return e.path("$CFG/Code/User/globalStorage/" + rest)
	case "$APPDATA":
		return e.join(e.or("APPDATA", "~/AppData/Roaming"), rest)
	case "$LOCALAPPDATA":
		return e.join(e.or("LOCALAPPDATA", "~/AppData/Local"), rest)
	}
	return e.join("", template)
}

// join puts the rest of a template behind a folder.
func (e Environment) join(folder, rest string) string {
	rest = strings.ReplaceAll(rest, "/", e.separator())
	switch {
	case folder == "":
		return rest
	case rest == "":
		return folder
	}
	return strings.TrimRight(folder, `/\`) + e.separator() + rest
}

// expand returns the paths of a template. A template with a * gives the paths that exist, in order
// of names; any other gives one path.
func (e Environment) expand(template string) []string {
	before, after, glob := strings.Cut(template, "*")
	if !glob {
		return []string{e.path(template)}
	}
	cut := strings.LastIndexByte(before, '/')
	folder, prefix := e.path(before[:cut]), before[cut+1:]
	suffix, rest, _ := strings.Cut(after, "/")
	if e.Names == nil {
		return nil
	}
	names := e.Names(folder)
	slices.Sort(names)
	var found []string
	for _, name := range names {
		if strings.HasPrefix(name, prefix) && strings.HasSuffix(name, suffix) {
			if file := e.join(e.join(folder, name), rest); e.Exists(file) {
				found = append(found, file)
			}
		}
	}
	return found
}

// folderOf returns the folder that a path is in.
func folderOf(file string) string {
	if at := strings.LastIndexAny(file, `/\`); at > 0 {
		return file[:at]
	}
	return path.Dir(file)
}
