package catalog

import (
	"errors"
	"fmt"
	"strings"

	"github.com/weir-mcp/weir/internal/catalog/primitive"
)

// errToolID is wrapped by every error of ParseToolID.
var errToolID = errors.New("illegal id")

// Lengths of the parts of an id in characters (spec/gateway §1.1).
const (
	maxIDLen        = 240
	maxNamespaceLen = 64
	maxNameLen      = 128
	maxVersionLen   = 32
	hash8Len        = 8
)

// ToolID is the parts of a canonical id:
//
//	namespace ":" name [ "@" version ] [ "#" hash8 ]
//
// Ids made by this package have a version or a hash8, seldom both.
type ToolID struct {
	Namespace string
	Name      string
	Version   string
	Hash8     string
}

// ParseToolID splits a tool id into its parts. Outside this package ids are opaque (spec/gateway
// §1.6).
func ParseToolID(s string) (ToolID, error) {
	if len(s) > maxIDLen {
		return ToolID{}, fmt.Errorf("%w: %d characters, at most %d are allowed", errToolID, len(s), maxIDLen)
	}
	namespace, rest, ok := strings.Cut(s, ":")
	if !ok {
		return ToolID{}, fmt.Errorf("%w %q: no \":\" after a namespace", errToolID, s)
	}
	id := ToolID{Namespace: namespace}
	rest, hash8, hasHash := strings.Cut(rest, "#")
	name, version, hasVersion := strings.Cut(rest, "@")
	id.Name, id.Version, id.Hash8 = name, version, hash8
	if hasHash && hash8 == "" || hasVersion && version == "" {
		return ToolID{}, fmt.Errorf("%w %q: nothing after \"@\" or \"#\"", errToolID, s)
	}
	if err := id.check(); err != nil {
		return ToolID{}, err
	}
	return id, nil
}

// join assembles an id without validation.
func (id ToolID) join() string {
	s := id.Namespace + ":" + id.Name
	if id.Version != "" {
		s += "@" + id.Version
	}
	if id.Hash8 != "" {
		s += "#" + id.Hash8
	}
	return s
}

func (id ToolID) check() error {
	switch {
	case !legalNamespace(id.Namespace):
		return fmt.Errorf("%w: namespace %q is not [a-z][a-z0-9_-]{0,63}", errToolID, clip(id.Namespace, maxIDLen))
	case !legalName(id.Name):
		return fmt.Errorf("%w: name %q is not [A-Za-z_][A-Za-z0-9_.-]{0,127}", errToolID, clip(id.Name, maxIDLen))
	case id.Version != "" && !legalVersion(id.Version):
		return fmt.Errorf("%w: version %q is not [A-Za-z0-9._-]{1,32}", errToolID, clip(id.Version, maxIDLen))
	case id.Hash8 != "" && !legalHash8(id.Hash8):
		return fmt.Errorf("%w: hash %q is not [0-9a-f]{8}", errToolID, clip(id.Hash8, maxIDLen))
	}
	return nil
}

// prefixOf returns the prefix of ids of a kind (spec/gateway §6.1). Tools have none. No tool id
// contains "::", so the id spaces are disjoint.
func prefixOf(kind primitive.Kind) string {
	switch kind {
	case primitive.KindResource, primitive.KindTemplate:
		return "resource::"
	case primitive.KindPrompt:
		return "prompt::"
	}
	return ""
}

// splitKind returns the kind and the rest of the id of a tool, a resource or a prompt. It validates
// neither.
func splitKind(s string) (primitive.Kind, string) {
	for _, kind := range []primitive.Kind{primitive.KindResource, primitive.KindPrompt} {
		if body, ok := strings.CutPrefix(s, prefixOf(kind)); ok {
			return kind, body
		}
	}
	return primitive.KindTool, s
}

// namespaceOf returns the namespace in an id without validating the rest.
func namespaceOf(id string) (string, bool) {
	_, body := splitKind(id)
	namespace, _, ok := strings.Cut(body, ":")
	return namespace, ok
}

func isLower(c byte) bool { return 'a' <= c && c <= 'z' }
func isUpper(c byte) bool { return 'A' <= c && c <= 'Z' }
func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func isNamespaceByte(c byte) bool {
	return isLower(c) || isDigit(c) || c == '_' || c == '-'
}

func isNameByte(c byte) bool {
	return isLower(c) || isUpper(c) || isDigit(c) || c == '_' || c == '.' || c == '-'
}

func legalNamespace(s string) bool {
	return s != "" && len(s) <= maxNamespaceLen && isLower(s[0]) && all(s, isNamespaceByte)
}

func legalName(s string) bool {
	return s != "" && len(s) <= maxNameLen && (isLower(s[0]) || isUpper(s[0]) || s[0] == '_') && all(s, isNameByte)
}

func legalVersion(s string) bool {
	return s != "" && len(s) <= maxVersionLen && all(s, isNameByte)
}

func legalHash8(s string) bool {
	return len(s) == hash8Len && all(s, func(c byte) bool { return isDigit(c) || 'a' <= c && c <= 'f' })
}

func all(s string, ok func(byte) bool) bool {
	for i := 0; i < len(s); i++ {
		if !ok(s[i]) {
			return false
		}
	}
	return true
}
