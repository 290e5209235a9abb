package app

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"path/filepath"
	"strings"
)

// A weir that starts itself starts itself again, and so on until the machine is full:
// the entry {"command": "weir", "args": ["serve", "--stdio"]} stands in the very file
// that both the client and weir read. So each weir tells the programs that it starts
// who they come from:
//
//	weir serve (X) ── WEIR_PARENT=a.X ──▶ … ──▶ weir serve (Y) ── WEIR_PARENT=a.X,b.Y ──▶ weir serve (X): refused
//
// A weir behind a weir with another configuration is fine.

// ParentVariable names the variable with the lineage of a process, the nearest ancestor last.
const ParentVariable = "WEIR_PARENT"

// maxAncestors bounds how many weirs may be behind one another.
const maxAncestors = 8

// ancestor is one weir that others come from.
type ancestor struct {
	instance string // tells processes apart
	config   string // tells configurations apart
}

// A Lineage is this weir and those that it comes from.
type Lineage []ancestor

// readLineage reads the variable. What it cannot read is left out.
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

// Descend returns the lineage of this process when it serves the configuration at a path, which is
// "" where there is none. The text is the value of ParentVariable. Descend fails with a *SetupError
// if an ancestor serves the same configuration.
func Descend(text, path string) (Lineage, error) {
	l := readLineage(text)
	own := ancestor{rand.Text()[:16], configID(path)}
	for _, one := range l {
		if path != "" && one.config == own.config {
			// The first word of what the ancestor looks for in it is the instance.
			return nil, setupf("%s: weir with %s has started this process, which would start everything of it again: the entry that starts weir is left out there, and can be removed from mcpServers", one.instance, path)
		}
	}
	if len(l) >= maxAncestors {
		return nil, setupf("%s: %d weirs are behind one another here, which is the bound: look for an entry of mcpServers that starts weir, which starts weir again", l[len(l)-1].instance, len(l))
	}
	return append(l, own), nil
}

// Variable returns the variable that programs are given, as NAME=VALUE.
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

// Instances returns what a program writes that finds itself in the Lineage.
func (l Lineage) Instances() []string {
	all := make([]string, len(l))
	for i, one := range l {
		all[i] = one.instance
	}
	return all
}

// configID tells configurations apart by where they are.
func configID(path string) string {
	if path == "" {
		return "none"
	}
	sum := sha256.Sum256([]byte(realPath(path)))
	return hex.EncodeToString(sum[:8])
}

// realPath is a path without links, as far as it can be followed.
func realPath(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		path = abs
	}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	return path
}
