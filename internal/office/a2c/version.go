package a2c

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/weir-mcp/weir/smcp"
)

// QueryVersion is the query parameter with the version of a connecting peer, 0.2 and later.
const QueryVersion = "a2c_version"

// HeaderErrorCode is the header of a response that refuses a version.
const HeaderErrorCode = "X-A2C-Error-Code"

// VersionDraft denotes the first draft when a hub sends a Computer the dialect of an Agent.
const VersionDraft = "draft"

// serverVersion is the newest version that weir speaks. minSupported and maxSupported bound the
// versions that it accepts.
const (
	serverVersion = "0.5.0"
	minSupported  = "0.1.0"
	maxSupported  = "0.5.999"
)

// Version is a protocol version.
type Version struct{ Major, Minor, Patch int }

// String returns the version without pre-release and build parts.
func (v Version) String() string { return fmt.Sprintf("%d.%d.%d", v.Major, v.Minor, v.Patch) }

// Supported reports whether weir speaks the version.
func (v Version) Supported() bool { return v.Major == 0 && v.Minor >= 1 && v.Minor <= 5 }

// ParseVersion parses a version such as "0.4.2", with an optional pre-release or build part. The
// error names the mistake.
func ParseVersion(s string) (Version, error) {
	core, build, hasBuild := strings.Cut(s, "+")
	core, pre, hasPre := strings.Cut(core, "-")
	parts := strings.Split(core, ".")
	bad := fmt.Errorf("%q is not MAJOR.MINOR.PATCH", clip(s))
	if len(parts) != 3 || hasPre && !suffix(pre) || hasBuild && !suffix(build) {
		return Version{}, bad
	}
	var n [3]int
	for i, p := range parts {
		v, err := strconv.Atoi(p)
		if err != nil || strconv.Itoa(v) != p || v < 0 {
			return Version{}, bad
		}
		n[i] = v
	}
	return Version{n[0], n[1], n[2]}, nil
}

// suffix reports whether s may follow the numbers of a version.
func suffix(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && r != '.' && r != '-'
	})
}

func clip(s string) string {
	if r := []rune(s); len(r) > 64 {
		return string(r[:64]) + "…"
	}
	return s
}

// Refusal is the HTTP response to a handshake whose version is not accepted.
type Refusal struct {
	Status int
	Header http.Header
	Body   []byte
}

// HeaderKey is the header with the public key that a weir Computer is about to prove. It keeps a hub
// from refusing the handshake because of a stale token.
const HeaderKey = "X-A2C-Key"

// CheckVersion reads the version from the query of a handshake. A missing version is the zero
// Version, or a refusal in strict mode.
func CheckVersion(query url.Values, strict bool) (Version, *Refusal) {
	raw := query.Get(QueryVersion)
	if raw == "" {
		if strict {
			return Version{}, refuse(refusalBody{Code: smcp.CodeInvalid, Message: "Missing a2c_version query parameter"})
		}
		return Version{}, nil
	}
	v, err := ParseVersion(raw)
	if err != nil {
		return Version{}, refuse(refusalBody{Code: smcp.CodeInvalid, Message: "Invalid a2c_version: " + err.Error()})
	}
	if !v.Supported() {
		return Version{}, refuse(refusalBody{smcp.CodeVersion, "Protocol version mismatch", serverVersion, raw, minSupported, maxSupported})
	}
	return v, nil
}

// refusalBody is the JSON body of a Refusal. Only CodeVersion has the versions.
type refusalBody struct {
	Code          int    `json:"code"`
	Message       string `json:"message"`
	ServerVersion string `json:"server_version,omitempty"`
	ClientVersion string `json:"client_version,omitempty"`
	MinSupported  string `json:"min_supported,omitempty"`
	MaxSupported  string `json:"max_supported,omitempty"`
}

func refuse(body refusalBody) *Refusal {
	raw, err := json.Marshal(body)
	if err != nil {
		panic(err) // texts and numbers only
	}
	h := http.Header{"Content-Type": {"application/json"}, "Content-Length": {strconv.Itoa(len(raw))}}
	if body.Code == smcp.CodeVersion {
		h.Set(HeaderErrorCode, strconv.Itoa(smcp.CodeVersion))
	}
	return &Refusal{Status: http.StatusBadRequest, Header: h, Body: raw}
}
