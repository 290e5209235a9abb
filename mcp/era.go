package mcp

import (
	"encoding/json"
	"slices"
)

// Protocol versions, oldest first. Versions before V20260728 are the legacy era: handshake,
// sessions, requests in both directions. V20260728 is the modern era: every request is
// self-contained.
const (
	V20241105 = "2024-11-05"
	V20250326 = "2025-03-26"
	V20250618 = "2025-06-18"
	V20251125 = "2025-11-25"
	V20260728 = "2026-07-28"
)

// LatestLegacy is the version that weir offers in a handshake.
const LatestLegacy = V20251125

// Versions lists the supported versions, newest first.
var Versions = []string{V20260728, V20251125, V20250618, V20250326, V20241105}

// IsModern reports whether version belongs to the modern era, even if weir does not speak it.
// Versions are dates, so they compare as text.
func IsModern(version string) bool { return version >= V20260728 }

// Supported reports whether version is one that weir speaks.
func Supported(version string) bool { return slices.Contains(Versions, version) }

// negotiate returns the version to answer in a handshake that asks for requested. It is the same
// version if it is a legacy one that weir speaks, else the newest legacy version.
func negotiate(requested string) string {
	if Supported(requested) && !IsModern(requested) {
		return requested
	}
	return LatestLegacy
}

// Keys of a modern request's _meta, and of results and notifications.
const (
	MetaVersion            = "io.modelcontextprotocol/protocolVersion"
	MetaClientInfo         = "io.modelcontextprotocol/clientInfo"
	MetaClientCapabilities = "io.modelcontextprotocol/clientCapabilities"
	metaServerInfo         = "io.modelcontextprotocol/serverInfo"
	MetaLogLevel           = "io.modelcontextprotocol/logLevel"
	MetaSubscriptionID     = "io.modelcontextprotocol/subscriptionId"
)

// Meta holds the parts of a request's _meta that weir reads, as slices of its params.
type Meta struct {
	Version            string // "" if the key is absent
	ClientInfo         json.RawMessage
	ClientCapabilities json.RawMessage
	LogLevel           string
	ProgressToken      json.RawMessage
}

// CheckModern returns an error if a modern request cannot be served: its _meta must have a
// supported version and the client's capabilities. header is the version of the HTTP header, or "".
func CheckModern(m Meta, header string) error {
	switch {
	case m.Version == "":
		return Errorf(KindInvalidParams, "params._meta[%q] is missing: every request of %s and later carries it", MetaVersion, V20260728)
	case header != "" && header != m.Version:
		return Errorf(KindHeaderMismatch, "header MCP-Protocol-Version is %q but params._meta[%q] is %q", header, MetaVersion, m.Version)
	case !Supported(m.Version) || !IsModern(m.Version):
		return UnsupportedVersion(m.Version)
	case m.ClientCapabilities == nil:
		return Errorf(KindInvalidParams, "params._meta[%q] is missing: every request of %s and later carries it", MetaClientCapabilities, V20260728)
	case m.ClientCapabilities[0] != '{':
		return Errorf(KindInvalidParams, "params._meta[%q] must be an object", MetaClientCapabilities)
	}
	return nil
}

// UnsupportedVersion returns the error for a version that weir does not speak. Its data lists the
// supported versions.
func UnsupportedVersion(requested string) error {
	data, _ := json.Marshal(map[string]any{"kind": KindUnsupportedVersion.String(), "supported": Versions, "requested": requested})
	e := Errorf(KindUnsupportedVersion, "unsupported protocol version %q", requested)
	e.Data = data
	return e
}
