package catalog

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/url"
	"slices"
	"strings"
	"unicode"
)

// fallbackNamespace is the namespace of what names none.
const fallbackNamespace = "mcp"

// InferNamespace returns the namespace of a tool or prompt of a catalog that
// has no configured server name: the prefix before the first "."; else before
// the first "/"; else, of a name of three or more parts joined by "_", the
// first part; else "mcp". What the grammar does not allow is mapped to it.
func InferNamespace(rawName string) string {
	namespace, _ := infer(rawName)
	return MapNamespace(namespace)
}

// DeriveName returns the name part of the id of a tool or prompt. A prefix that
// ends with "." or "/" is left out if it equals the namespace; with namespace
// "" the namespace is inferred. What the grammar does not allow is mapped to
// it (spec/gateway §1.4).
func DeriveName(rawName, namespace string) string {
	return mapName(stripPrefix(rawName, namespace))
}

// infer returns the namespace and the name of a raw name, unmapped.
func infer(rawName string) (namespace, name string) {
	for _, sep := range []string{".", "/"} {
		if prefix, rest, ok := strings.Cut(rawName, sep); ok && prefix != "" {
			if rest == "" {
				rest = rawName
			}
			return prefix, rest
		}
	}
	if parts := strings.Split(rawName, "_"); len(parts) >= 3 && parts[0] != "" {
		return parts[0], rawName
	}
	return fallbackNamespace, rawName
}

func stripPrefix(rawName, namespace string) string {
	if namespace == "" {
		_, name := infer(rawName)
		return name
	}
	for _, sep := range []string{".", "/"} {
		prefix, rest, ok := strings.Cut(rawName, sep)
		if ok && rest != "" && prefix != "" && (prefix == namespace || MapNamespace(prefix) == namespace) {
			return rest
		}
	}
	return rawName
}

// resourceName returns the namespace and the name of a resource, unmapped. With
// no configured namespace the scheme of its URI is the namespace; a resource
// without a name is called by the last part of its URI.
func resourceName(uri, name, namespace string) (string, string) {
	if namespace == "" {
		namespace = fallbackNamespace
		if scheme, _, ok := strings.Cut(uri, ":"); ok && scheme != "" {
			namespace = scheme
		}
	}
	if name == "" {
		name = strings.TrimRight(uri, "/")
		if i := strings.LastIndexAny(name, "/:"); i >= 0 {
			name = name[i+1:]
		}
		if unescaped, err := url.PathUnescape(name); err == nil {
			name = unescaped
		}
	}
	return namespace, name
}

// MapNamespace maps s to the namespace grammar, always in the same way: lower
// case, other characters to "_", what may not come first cut off or led by an
// "n", a long one cut and told apart by a hash. A legal one stays as it is.
func MapNamespace(s string) string {
	if legalNamespace(s) {
		return s
	}
	var b strings.Builder
	for _, r := range strings.ToLower(s) {
		if r < unicode.MaxASCII && isNamespaceByte(byte(r)) {
			b.WriteRune(r)
		} else {
			b.WriteByte('_')
		}
	}
	mapped := strings.TrimLeft(b.String(), "_-")
	if mapped == "" {
		return fallbackNamespace
	}
	if isDigit(mapped[0]) {
		mapped = "n" + mapped
	}
	return shorten(mapped, s, maxNamespaceLen)
}

// mapName maps s to the name grammar: other characters to "_", a "_" before
// what may not come first, a long one cut and told apart by a hash.
func mapName(s string) string {
	if legalName(s) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if r < unicode.MaxASCII && isNameByte(byte(r)) {
			b.WriteRune(r)
		} else {
			b.WriteByte('_')
		}
	}
	mapped := b.String()
	if mapped == "" || isDigit(mapped[0]) || mapped[0] == '.' || mapped[0] == '-' {
		mapped = "_" + mapped
	}
	return shorten(mapped, s, maxNameLen)
}

// shorten cuts mapped to limit bytes, the last being a hash of what it was.
func shorten(mapped, raw string, limit int) string {
	if len(mapped) <= limit {
		return mapped
	}
	return mapped[:limit-hash8Len-1] + "_" + hash8([]byte(raw))
}

// Hash8 returns the hash of a tool's shape: its raw name as the upstream
// reports it and its input schema's property names and required names, no
// types and no prose (spec/gateway §1.3). A schema that is absent or no
// object has no properties.
func Hash8(upstreamName string, schema json.RawMessage) string {
	properties, required := shape(schema)
	b := make([]byte, 0, 256)
	b = append(b, upstreamName...)
	b = append(b, "\n{\"properties\":"...)
	b = appendNames(b, properties)
	b = append(b, ",\"required\":"...)
	b = appendNames(b, required)
	b = append(b, '}')
	return hash8(b)
}

// HashResource returns the hash of a resource, which is that of its URI, or of
// a resource template's URI template (spec/gateway §6.2).
func HashResource(uri string) string {
	return hash8([]byte("resource\n" + uri))
}

// HashPrompt returns the hash of a prompt: its raw name and its arguments'
// names, in any order (spec/gateway §6.2).
func HashPrompt(name string, arguments []string) string {
	arguments = slices.Sorted(slices.Values(arguments))
	return hash8(appendNames([]byte("prompt\n"+name+"\n"), arguments))
}

func digest(b []byte) [sha256.Size]byte { return sha256.Sum256(b) }

func hash8(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:hash8Len/2])
}

// shape returns the sorted names of a schema's properties and of its required
// properties.
func shape(schema json.RawMessage) (properties, required []string) {
	var propertiesRaw, requiredRaw []byte
	members(schema, func(key, value []byte) bool {
		switch string(key) {
		case "properties":
			propertiesRaw = value
		case "required":
			requiredRaw = value
		}
		return true
	})
	members(propertiesRaw, func(key, _ []byte) bool {
		properties = append(properties, strings.ToValidUTF8(string(key), "\uFFFD"))
		return true
	})
	elements(requiredRaw, func(value []byte) bool {
		if s, ok := text(value); ok {
			required = append(required, s)
		}
		return true
	})
	slices.Sort(properties)
	slices.Sort(required)
	return slices.Compact(properties), required
}

func appendNames(dst []byte, names []string) []byte {
	dst = append(dst, '[')
	for i, name := range names {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendASCII(dst, name)
	}
	return append(dst, ']')
}
