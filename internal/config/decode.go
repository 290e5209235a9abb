package config

import (
	"context"
	"errors"
	"reflect"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/weir-mcp/weir/internal/config/mcpserver"
	"github.com/weir-mcp/weir/internal/json/strict"
)

// The values and the problems of a file, from package strict, and an entry of mcpServers.
type (
	// Problem is one thing wrong with a configuration.
	Problem = strict.Problem
	// Error is a configuration that cannot be used, with every problem.
	Error = strict.Error
	// Secret is a text that must not be shown; only its method Reveal gives the text itself.
	Secret = strict.Secret
	// Bytes is a size. In a file it is a number of bytes or a text such as "10MB".
	Bytes = strict.Bytes
	// Server is one entry of mcpServers.
	Server = mcpserver.Server
)

// ErrNotFound is the error that [Find] wraps if a folder holds no configuration.
var ErrNotFound = errors.New("no configuration found")

// Warning is a problem that does not keep weir from working.
type Warning Problem

// String returns the warning with its place.
func (w Warning) String() string { return Problem(w).String() }

// decoder reads a file into a Config. Package strict reads it by the tags. The decoder adds weir's
// own part: the variables, and the keys of other clients' files. Checks of values that need none of
// that take only the strict.Decoder.
type decoder struct {
	*strict.Decoder
	foreign bool
	dir     string
	expand  *expander

	paths     map[*Server]string  // of the entries of mcpServers
	flat      map[*Server]bool    // entries that are not mappings
	startable func(*Server) error // why a program could not be started; may be nil
	whole     bool                // an entry that is wrong makes the file wrong
	gemini    dialect
}

func newDecoder(name string, foreign bool, o Options, e *expander) *decoder {
	d := &decoder{foreign: foreign, dir: o.Dir, expand: e, whole: o.Strict, startable: o.Check, paths: map[*Server]string{}, flat: map[*Server]bool{}}
	d.Decoder = strict.NewDecoder(strict.Options{File: name, Lenient: foreign, Rename: d.rename, Unknown: d.unknown, Entry: d.server, Text: d.text, Plain: plainName})
	return d
}

// rename returns a key of a foreign file as weir would write it.
func (d *decoder) rename(p strict.Pair, n *yaml.Node, path string, t reflect.Type) strict.Pair {
	switch {
	case path == "":
		p.Key = d.topLevelAlias(p.Key, n)
	case t == reflect.TypeFor[Server]():
		p = d.otherClients(p, n, path)
	}
	return p
}

// server decodes an entry of mcpServers. It replaces the variables of its texts unless the entry is
// disabled.
func (d *decoder) server(n *yaml.Node, path string, v any, decode func()) {
	s := v.(*Server)
	d.paths[s], d.flat[s] = path, n.Kind != yaml.MappingNode
	if !d.flat[s] && !switchedOff(n) {
		d.expand.enter(s.Name, path)
		defer d.expand.leave()
	}
	decode()
}

// switchedOff reports whether an entry has disabled: true, before it is decoded.
func switchedOff(entry *yaml.Node) bool {
	for i := 0; i+1 < len(entry.Content); i += 2 {
		if entry.Content[i].Value == "disabled" {
			return entry.Content[i+1].Value == "true"
		}
	}
	return false
}

// withVariables are the keys outside of servers that may have variables and are no secrets as a whole: they differ
// between the nodes of a cluster, which have one file, or have a password in a URL.
var withVariables = []string{"cluster.node", "cluster.listen", "cluster.advertise", "store", "store.at"}

// text replaces the variables of a text, where the entry is a server's, the text is a secret or it is of one of
// withVariables.
func (d *decoder) text(n *yaml.Node, path string, secret bool) (string, bool) {
	if !d.expand.active() && !secret && !slices.Contains(withVariables, path) {
		return n.Value, true
	}
	d.expand.noteReferences(path, n.Value)
	d.expand.tellOutside(n.Value)
	text, err := d.expand.text(n.Value, secret)
	if err == nil {
		return text, true
	}
	entry := d.Entry()
	if errors.Is(err, context.Canceled) {
		entry = "" // the user who was asked wants to stop
	}
	d.Within(entry, func() { d.Report(n, path, err, "%s: %v", path, err) })
	return "", false
}
