package config

import (
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/weir-mcp/weir/internal/config/mcpserver"
	"github.com/weir-mcp/weir/internal/json/strict"
)

// Files of other MCP clients differ in a few keys from the common form. This file holds all such
// differences:
//
//	servers                    VS Code's name for mcpServers
//	{"a": {"command": …}}      no mcpServers around the servers
//	serverUrl, httpUrl         Windsurf's, and Gemini CLI's and Qwen Code's, url
//	includeTools, excludeTools Gemini CLI's lists of tools; disabledTools is Windsurf's
//	envFile                    VS Code's env_file
//	oauth                      ignored: it describes the client, or says that it logs in
//	trust: true                Gemini CLI's and Qwen Code's, another thing than weir's trust
//	timeout: 600000            milliseconds in files of Gemini CLI and Qwen Code
//	${workspaceFolder} …       the variables of VS Code and Cursor; see expander

// dialect holds the signs by which a foreign file shows its client.
type dialect int

const (
	common    dialect = iota
	geminiKey         // an entry has a key that only Gemini CLI and Qwen Code know
	geminiOwn         // the file is one of their settings.json
)

// dialectOf looks at a file's path and at the entries of its mcpServers.
func dialectOf(path, dir string, root *yaml.Node) dialect {
	folder := filepath.Base(filepath.Dir(path))
	if folder == "." && dir != "" {
		folder = filepath.Base(dir)
	}
	if (folder == ".gemini" || folder == ".qwen") && filepath.Base(path) == "settings.json" {
		return geminiOwn
	}
	for _, entry := range values(valueAt(root, "mcpServers")) {
		if slices.ContainsFunc(keysIn(entry), func(key string) bool {
			return key == "trust" && isBool(valueAt(entry, key)) || slices.Contains([]string{"httpUrl", "includeTools", "excludeTools", "authProviderType", "targetAudience"}, key)
		}) {
			return geminiKey
		}
	}
	return common
}

// keysIn returns the keys of a mapping, none of anything else.
func keysIn(n *yaml.Node) (keys []string) {
	if n == nil || n.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		keys = append(keys, n.Content[i].Value)
	}
	return keys
}

// values returns the values of a mapping, none of anything else.
func values(n *yaml.Node) (values []*yaml.Node) {
	if n == nil || n.Kind != yaml.MappingNode {
		return nil
	}
	for i := 1; i < len(n.Content); i += 2 {
		values = append(values, n.Content[i])
	}
	return values
}

// valueAt returns the value of a mapping's key, or nil.
func valueAt(n *yaml.Node, key string) *yaml.Node {
	if i := slices.Index(keysIn(n), key); i >= 0 {
		return n.Content[2*i+1]
	}
	return nil
}

// topLevelAlias reads VS Code's "servers" as mcpServers in a foreign file.
func (d *decoder) topLevelAlias(key *yaml.Node, root *yaml.Node) *yaml.Node {
	if !d.foreign || key.Value != "servers" || valueAt(root, "mcpServers") != nil {
		return key // if both are there, the unknown-key warning names the one that was not read
	}
	renamed := *key
	renamed.Value = "mcpServers"
	return &renamed
}

// wrapped returns the root of a foreign file with mcpServers around its servers. It adds mcpServers
// if the root is a mapping of servers, and changes no other root.
func (d *decoder) wrapped(root *yaml.Node) *yaml.Node {
	all := values(root)
	if !d.foreign || len(all) == 0 || slices.ContainsFunc(all, func(n *yaml.Node) bool { return !looksLikeServer(keysIn(n)) }) {
		return root
	}
	d.Warn(root, "mcpServers", "there is no mcpServers in this file; its keys (%s) are read as servers", strict.Clip(strings.Join(keysIn(root), ", ")))
	key := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: "mcpServers", Line: root.Line, Column: root.Column}
	return &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Line: root.Line, Column: root.Column, Content: []*yaml.Node{key, root}}
}

// looksLikeServer reports whether keys look like the keys of an entry of mcpServers.
func looksLikeServer(keys []string) bool {
	return slices.ContainsFunc(keys, func(key string) bool {
		return key == "command" || key == "url" || aliasOf(key) == "url"
	})
}

// aliasOf returns weir's name for another client's key of an entry, or "".
func aliasOf(key string) string {
	switch key {
	case "serverUrl", "httpUrl":
		return "url"
	case "includeTools":
		return "include_tools"
	case "excludeTools", "disabledTools":
		return "exclude_tools"
	case "envFile":
		return "env_file"
	}
	return ""
}

// otherClients returns a key of the entry n of a foreign file as weir would write
// it.
func (d *decoder) otherClients(p strict.Pair, n *yaml.Node, path string) strict.Pair {
	if !d.foreign {
		return p
	}
	if name := aliasOf(p.Key.Value); name != "" && valueAt(n, p.Key.Value) != nil { // not from a merge key
		same := func(key string) bool { return key == name || aliasOf(key) == name }
		if valueAt(n, name) != nil || keysIn(n)[slices.IndexFunc(keysIn(n), same)] != p.Key.Value {
			return p // the unknown-key message says that this one is not read
		}
		renamed := *p.Key
		renamed.Value = name
		p.Key = &renamed
	}
	if p.Key.Value == "oauth" && !ownOAuth(p.Value) {
		d.Warn(p.Key, strict.Join(path, "oauth"), "%s is another client's; it is ignored, because weir signs in as itself: weir login NAME", strict.Join(path, "oauth"))
		p.Value = &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null"}
	}
	if p.Key.Value == "trust" && isBool(p.Value) {
		renamed := *p.Key
		renamed.Value = geminiTrust
		p.Key = &renamed
	}
	if p.Key.Value == "timeout" {
		p.Value = d.foreignTimeout(p.Value, strict.Join(path, "timeout"))
	}
	return p
}

// ownOAuth reports whether the value of oauth is written for weir: it has only weir's keys.
func ownOAuth(n *yaml.Node) bool {
	known := strict.Keys(reflect.TypeFor[mcpserver.OAuth]())
	return n.Kind == yaml.MappingNode && !slices.ContainsFunc(keysIn(n), func(key string) bool { return !slices.Contains(known, key) })
}

// geminiTrust stands for the key trust of Gemini CLI and Qwen Code, a boolean: whether calls go without
// a question.
const geminiTrust = "trust of Gemini CLI"

func isBool(n *yaml.Node) bool {
	return n != nil && n.Kind == yaml.ScalarNode && n.ShortTag() == "!!bool"
}

// longTimeout is the bound from which on a bare number was probably meant in milliseconds.
const longTimeout = 1000

// foreignTimeout reads the number of a timeout in its client's unit. If the unit is not certain, it
// warns of the unit that it chose.
func (d *decoder) foreignTimeout(n *yaml.Node, path string) *yaml.Node {
	number, err := strconv.ParseFloat(n.Value, 64)
	if n.Kind != yaml.ScalarNode || err != nil || n.ShortTag() != "!!int" && n.ShortTag() != "!!float" {
		return n
	}
	if d.gemini == geminiOwn || d.gemini == geminiKey && number >= longTimeout {
		inUnits := *n
		inUnits.Tag, inUnits.Value = "!!str", n.Value+"ms"
		return &inUnits
	}
	if number >= longTimeout {
		d.Warn(n, path, "%s: %s is read as seconds; write \"%sms\" if milliseconds are meant", path, strict.Clip(n.Value), strict.Clip(n.Value))
	}
	return n
}

// workspaceOf returns the folder of the project that a file in dir belongs to. It is dir itself, or
// its parent if dir is a client's own folder.
func workspaceOf(dir string) string {
	switch filepath.Base(dir) {
	case ".cursor", ".vscode", ".windsurf", ".gemini", ".qwen", ".claude":
		return filepath.Dir(dir)
	}
	return dir
}
