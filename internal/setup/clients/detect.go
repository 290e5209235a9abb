package clients

import (
	"slices"
	"strings"
)

// Found is a client on the machine.
type Found struct {
	Client *Client

	// Files are the user's files that exist, first the one that weir writes. If there is none, the
	// client was found by its folder, and Target is the file to create.
	Files []string

	// Target is the file that weir's entry goes to: the first of Files, or a new file.
	Target string
}

// Detect returns the clients of this machine in the order of the table. A client is found if one of
// its files exists, or the client's own folder for it. Detect opens no file.
func Detect(env Environment) []Found {
	var found []Found
	for _, c := range All() {
		if f, ok := c.find(env); ok {
			found = append(found, f)
		}
	}
	return found
}

// find looks for the files of one client.
func (c *Client) find(env Environment) (Found, bool) {
	f := Found{Client: c}
	for _, template := range c.templates(env.OS) {
		for _, file := range env.expand(template) {
			if env.Exists(file) && !slices.Contains(f.Files, file) {
				f.Files = append(f.Files, file)
			}
			if f.Target == "" && env.Exists(folderOf(file)) && c.owns(env, folderOf(file)) {
				f.Target = file
			}
		}
	}
	if len(f.Files) > 0 {
		f.Target = f.Files[0]
	}
	return f, f.Target != ""
}

// owns reports whether a folder belongs only to the client. Then the folder is a sign of the
// client.
func (c *Client) owns(env Environment, folder string) bool {
	return !slices.Contains([]string{env.Home, env.path("$CONFIG"), env.path("$CFG"), env.path("$APPDATA"), env.path("$LOCALAPPDATA")}, folder) &&
		!slices.Contains(c.shared, folder[strings.LastIndexAny(folder, `/\`)+1:])
}

// templates returns the places of the user's files on one system, the best one first.
func (c *Client) templates(os string) []string {
	var out []string
	for _, template := range c.files {
		if on, rest, ok := strings.Cut(template, "|"); !ok {
			out = append(out, template)
		} else if on == os {
			out = append(out, rest)
		}
	}
	return out
}

// DefaultFile returns the place of the client's file on a machine without the client. It returns ""
// for a client without a file.
func (c *Client) DefaultFile(env Environment) string {
	for _, template := range c.templates(env.OS) {
		if !strings.Contains(template, "*") {
			return env.path(template)
		}
	}
	return ""
}
