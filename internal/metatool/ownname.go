package metatool

import (
	"strings"

	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/catalog/primitive"
)

// assignOwn names the tools of a catalog of one principal. Entries that all callers share have the
// names of common. The name of any other tool follows only from that tool and from common, so it does
// not reveal the lists of others, or have listed: it is server__tool if that text is legal as it is
// and no two tools can have it, else one with a hash.
func assignOwn(common *naming, c *catalog.Catalog) *naming {
	tools := toolsOf(c)
	out := &naming{of: c, names: make(map[*catalog.Entry]string, len(tools)), ids: make(map[string]string, len(tools))}
	// A shared entry may have another id here, because its namespace has more tools.
	shared := make(map[primitive.Key]string, len(common.names))
	for e, name := range common.names {
		shared[e.Key()] = name
	}
	for _, e := range tools {
		if name := shared[e.Key()]; name != "" && !e.Own {
			out.names[e], out.ids[name] = name, e.ID
		}
	}
	for _, e := range tools {
		if out.names[e] != "" {
			continue
		}
		key := toolKey{upstream: e.Upstream, namespace: e.Namespace, tool: e.RawName}
		free := func(name string) bool {
			return common.ids[name] == "" && out.ids[name] == "" && !isMetaTool(name)
		}
		name := plainName(key)
		if !isOwnName(key, name) || !free(name) {
			name = hashedName(key, free)
		}
		out.names[e], out.ids[name] = name, e.ID
	}
	return out
}

// isOwnName reports whether no other tool of the namespaces can have a name without a hash.
func isOwnName(k toolKey, name string) bool {
	return len(name) <= maxListedName && name == k.namespace+"__"+k.tool && k.namespace != "" && !strings.Contains(k.namespace, "__") && !strings.HasSuffix(k.namespace, "_")
}
