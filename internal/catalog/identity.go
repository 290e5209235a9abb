package catalog

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/url"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// fallbackNamespace is the namespace if a name contains none.
const fallbackNamespace = "mcp"

// infer returns the namespace and name in the raw name of a tool or prompt, unmapped. The namespace
// is the prefix before the first ".", or before the first "/", or the first of three or more parts
// joined by "_", or "mcp". The name lacks a prefix that ends with "." or "/" (spec/gateway §1.4).
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

// stripPrefix removes a prefix that ends with "." or "/" from a raw name if the prefix equals
// namespace, which is mapped.
func stripPrefix(rawName, namespace string) string {
	for _, sep := range []string{".", "/"} {
		prefix, rest, ok := strings.Cut(rawName, sep)
		if ok && rest != "" && prefix != "" && (prefix == namespace || MapNamespace(prefix) == namespace) {
			return rest
		}
	}
	return rawName
}

// resourceName returns the namespace and name of a resource, unmapped. Without a configured
// namespace, the URI scheme is the namespace. A resource without a name takes the last part of its
// URI.
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

// MapNamespace maps s to the namespace grammar, deterministically: it lower-cases, replaces other
// characters by "_", fixes an illegal first character, and shortens a long name with a hash. A
// legal namespace is unchanged.
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

// mapName maps s to the name grammar: it replaces other characters by "_", prefixes "_" to an
// illegal first character, and shortens a long name with a hash.
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

// losesLetters reports whether an id lacks letters or digits of a name because they are not ASCII. A
// name with an address is left to its id: cards have no addresses.
func losesLetters(name string) bool {
	return !strings.Contains(name, "://") && strings.ContainsFunc(name, func(r rune) bool {
		return r > unicode.MaxASCII && r != utf8.RuneError && (unicode.IsLetter(r) || unicode.IsNumber(r))
	})
}

// shorten cuts mapped to limit bytes, including a hash of raw at the end.
func shorten(mapped, raw string, limit int) string {
	if len(mapped) <= limit {
		return mapped
	}
	return mapped[:limit-hash8Len-1] + "_" + hash8([]byte(raw))
}

// hashTool returns the hash of a tool's shape: its raw name and its input schema's property names and
// required names, without types and texts (spec/gateway §1.3). A missing or non-object schema has
// no properties.
func hashTool(upstreamName string, schema json.RawMessage) string {
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

// hashResource returns the hash of a resource's URI, or of a resource template's URI template
// (spec/gateway §6.2).
func hashResource(uri string) string {
	return hash8([]byte("resource\n" + uri))
}

// hashPrompt returns the hash of a prompt's raw name and argument names, in any order (spec/gateway
// §6.2).
func hashPrompt(name string, arguments []string) string {
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
		if s, ok := stringOf(value); ok {
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
