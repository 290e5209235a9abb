package metatool

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
	"sync"

	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/catalog/primitive"
)

// maxListedName is how long a name may be that every model provider accepts.
const maxListedName = 64

// maxToolNames bounds the names that are remembered. A tool beyond the bound gets its name again
// with each catalog, by the same rules.
const maxToolNames = 1 << 16

// toolNames gives tools names that every model provider accepts, [A-Za-z0-9_-]{1,64}: server__tool,
// with other characters mapped to "_". A name that is too long, or that several tools would have, is
// cut and ends in a hash of server and tool. A tool keeps its name for as long as the toolNames
// lives, and the name of a tool that is gone is not given to another one. It is safe for concurrent
// use.
type toolNames struct {
	mu    sync.Mutex // guards below
	names map[toolKey]string
	owner map[string]ownedName
}

// toolKey identifies a tool whatever its parameters are.
type toolKey struct {
	upstream, namespace, tool string
	id                        string // only where a server lists several tools of one name
}

type ownedName struct {
	key toolKey
	id  string // of the tool, when it was last listed
}

// naming is the names of the tools of one catalog.
type naming struct {
	of    *catalog.Catalog
	names map[*catalog.Entry]string
	ids   map[string]string // name → id of the tool
}

// assign names the tools of a catalog.
func (n *toolNames) assign(c *catalog.Catalog) *naming {
	tools := toolsOf(c)
	out := &naming{of: c, names: make(map[*catalog.Entry]string, len(tools)), ids: make(map[string]string, len(tools))}
	keys := make([]toolKey, len(tools))
	alike := map[toolKey]int{}
	for i, e := range tools {
		keys[i] = toolKey{upstream: e.Upstream, namespace: e.Namespace, tool: e.RawName}
		alike[keys[i]]++
	}
	for i, e := range tools {
		if alike[keys[i]] > 1 {
			keys[i].id = e.ID
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.names == nil {
		n.names, n.owner = map[toolKey]string{}, map[string]ownedName{}
	}
	wanted := map[string]int{} // by how many new tools
	for i := range tools {
		if _, known := n.names[keys[i]]; !known {
			wanted[plainName(keys[i])]++
		}
	}
	for i, e := range tools {
		name, known := n.names[keys[i]]
		if !known {
			name = plainName(keys[i])
			free := func(name string) bool {
				_, owned := n.owner[name]
				return !owned && out.ids[name] == "" && !isMetaTool(name)
			}
			if keys[i].id != "" || wanted[name] > 1 || len(name) > maxListedName || !free(name) {
				name = hashedName(keys[i], free)
			}
		}
		if known || len(n.names) < maxToolNames {
			n.names[keys[i]], n.owner[name] = name, ownedName{keys[i], e.ID}
		}
		out.names[e], out.ids[name] = name, e.ID
	}
	return out
}

// last returns the id that the tool of a name had when it was last listed, "" for an unknown name.
func (n *toolNames) last(name string) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.owner[name].id
}

// plainName returns the name of a tool before it is cut.
func plainName(k toolKey) string {
	name := k.tool
	if k.namespace != "" {
		name = k.namespace + "__" + k.tool
	}
	name = strings.Map(acceptedRune, name)
	if name == "" {
		return "_"
	}
	return name
}

// hashedName returns the name of a tool with a hash at its end, for which free returns true.
func hashedName(k toolKey, free func(name string) bool) string {
	name := plainName(k)
	seed := k.upstream + "\x00" + k.namespace + "\x00" + k.tool + "\x00" + k.id
	for round := 0; ; round++ {
		if round > 0 {
			seed += "\x00" + strconv.Itoa(round)
		}
		sum := sha256.Sum256([]byte(seed))
		suffix := "_" + hex.EncodeToString(sum[:4])
		if cut := name[:min(len(name), maxListedName-len(suffix))] + suffix; free(cut) {
			return cut
		}
	}
}

// acceptedRune maps a character of a name to one that every model provider accepts.
func acceptedRune(r rune) rune {
	switch {
	case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', r == '_', r == '-':
		return r
	}
	return '_'
}

// toolsOf returns the tools of a catalog, by ascending id.
func toolsOf(c *catalog.Catalog) []*catalog.Entry {
	var tools []*catalog.Entry
	for _, e := range c.Entries() {
		if e.Kind == primitive.KindTool {
			tools = append(tools, e)
		}
	}
	return tools
}

// isMetaTool reports whether a meta-tool has a name.
func isMetaTool(name string) bool {
	for _, m := range metaTools {
		if m.name == name {
			return true
		}
	}
	return false
}
