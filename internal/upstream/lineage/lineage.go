package lineage

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"path/filepath"
	"strings"

	"github.com/weir-mcp/weir/internal/part"
)

// A weir whose configuration starts weir again would repeat that until the machine is full. It
// happens easily: a client and weir read the same file, and the client's entry {"command": "weir",
// "args": ["serve", "--stdio"]} is in it. Therefore each weir tells the programs that it starts
// which weir processes they descend from:
//
//	weir serve (X) ── WEIR_PARENT=a.X ──▶ … ──▶ weir serve (Y) ── WEIR_PARENT=a.X,b.Y ──▶ weir serve (X): refused
//
// A weir below a weir with a different configuration is allowed.

// ParentVariable names the environment variable with the lineage of a process, nearest ancestor
// last.
const ParentVariable = "WEIR_PARENT"

// maxAncestors bounds the depth of nested weirs.
const maxAncestors = 8

// ancestor is one weir process above another.
type ancestor struct {
	instance string // identifies the process
	config   string // identifies its configuration
}

// A Lineage is this weir followed by its ancestors.
type Lineage []ancestor

// readLineage parses the variable. It ignores malformed parts.
func readLineage(text string) Lineage {
	var l Lineage
	for part := range strings.SplitSeq(text, ",") {
		instance, config, ok := strings.Cut(part, ".")
		if ok && instance != "" && config != "" && len(part) <= 100 && len(l) < 2*maxAncestors {
			l = append(l, ancestor{instance, config})
		}
	}
	return l
}

// Descend returns the lineage of this process when it serves the configuration at path ("" for
// none). text is the value of ParentVariable. Descend returns a *SetupError if an ancestor serves
// the same configuration.
func Descend(text, path string) (Lineage, error) {
	l := readLineage(text)
	own := ancestor{rand.Text()[:16], configID(path)}
	for _, one := range l {
		if path != "" && one.config == own.config {
			// The instance must be the first word: the ancestor searches its child's output for it.
			return nil, part.Setupf("%s: weir with %s has started this process, which would start everything of it again: the entry that starts weir is left out there, and can be removed from mcpServers", one.instance, path)
		}
	}
	if len(l) >= maxAncestors {
		return nil, part.Setupf("%s: %d weirs are behind one another here, which is the bound: look for an entry of mcpServers that starts weir, which starts weir again", l[len(l)-1].instance, len(l))
	}
	return append(l, own), nil
}

// Variable returns the variable for child programs as NAME=VALUE.
func (l Lineage) Variable() []string {
	if len(l) == 0 {
		return nil
	}
	parts := make([]string, len(l))
	for i, one := range l {
		parts[i] = one.instance + "." + one.config
	}
	return []string{ParentVariable + "=" + strings.Join(parts, ",")}
}

// Instances returns the instance ids that a descendant prints if it finds its own configuration in
// the Lineage.
func (l Lineage) Instances() []string {
	all := make([]string, len(l))
	for i, one := range l {
		all[i] = one.instance
	}
	return all
}

// configID identifies a configuration by its path.
func configID(path string) string {
	if path == "" {
		return "none"
	}
	sum := sha256.Sum256([]byte(realPath(path)))
	return hex.EncodeToString(sum[:8])
}

// realPath resolves symbolic links as far as possible.
func realPath(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		path = abs
	}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	return path
}
