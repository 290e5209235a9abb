// Package cards serves what clients may know of weir before they connect: a server card, and the
// catalog that leads to it (SEP-2127 and its extension io.modelcontextprotocol/server-card). They name
// weir, its version and its endpoint, and none of the servers behind it: anyone may read them.
package cards

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/weir-mcp/weir/mcp"
)

// Where the documents are. The extension reserves CardPath below the endpoint, and the catalog names it;
// earlier drafts had the card at WellKnownPath, where many clients look.
const (
	CatalogPath   = "/.well-known/mcp/catalog.json"
	WellKnownPath = "/.well-known/mcp/server-card.json"
	Endpoint      = "/mcp"
	CardName      = "server-card" // last part of CardPath
	CardPath      = Endpoint + "/" + CardName
)

const (
	schema    = "https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json"
	mediaType = "application/mcp-server-card+json"
	title     = "weir"
	about     = "Finds and runs the tools of many MCP servers, with their resources and prompts."
)

type card struct {
	Schema      string   `json:"$schema"`
	Name        string   `json:"name"`
	Version     string   `json:"version"`
	Title       string   `json:"title"`
	Description string   `json:"description"`
	Remotes     []remote `json:"remotes"`
}

type remote struct {
	Type     string   `json:"type"`
	URL      string   `json:"url"`
	Headers  []header `json:"headers,omitempty"`
	Versions []string `json:"supportedProtocolVersions"`
}

type header struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	Required    bool   `json:"isRequired"`
	Secret      bool   `json:"isSecret"`
}

type catalog struct {
	Version string  `json:"specVersion"`
	Entries []entry `json:"entries"`
}

type entry struct {
	ID   string `json:"identifier"`
	Name string `json:"displayName"`
	Type string `json:"type"`
	URL  string `json:"url"`
}

// Handler serves the documents of a weir that clients reach at the URL base and that has a version.
// token reports that a client needs a token which no authorization server gives out.
func Handler(base, version string, token bool) http.Handler {
	base = strings.TrimSuffix(base, "/")
	publisher, namespace := names(base)
	c := card{
		Schema: schema, Name: namespace + "/" + title, Version: version, Title: title, Description: about,
		Remotes: []remote{{Type: "streamable-http", URL: base + Endpoint, Versions: slices.Clone(mcp.Versions)}},
	}
	if token {
		c.Remotes[0].Headers = []header{{"Authorization", "Bearer and a token from the operator", true, true}}
	}
	mux := http.NewServeMux()
	of := document(mediaType, c)
	mux.Handle(CardPath, of)
	mux.Handle(WellKnownPath, of)
	mux.Handle(CatalogPath, document("application/json", catalog{"draft", []entry{{
		ID: "urn:air:" + publisher + ":" + title, Name: title, Type: mediaType, URL: base + CardPath,
	}}}))
	return mux
}

// names returns who publishes a URL, and the namespace of its names: example.com and com.example.
func names(base string) (publisher, namespace string) {
	u, err := url.Parse(base)
	if err != nil || u.Hostname() == "" {
		return "localhost", "localhost"
	}
	host := strings.ToLower(u.Hostname())
	if ip, err := netip.ParseAddr(host); err == nil {
		if ip.IsLoopback() {
			return "localhost", "localhost"
		}
		host = strings.NewReplacer(":", "-", "%", "-").Replace(host)
		return host, host
	}
	labels := strings.Split(strings.Trim(host, "."), ".")
	slices.Reverse(labels)
	return host, strings.Join(labels, ".")
}

// document serves a value to pages of every origin.
func document(mediaType string, value any) http.Handler {
	body, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		body = []byte("{}") // cannot happen: only texts
	}
	sum := sha256.Sum256(body)
	tag := `"` + base64.RawURLEncoding.EncodeToString(sum[:12]) + `"`
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Access-Control-Allow-Origin", "*")
		h.Set("Access-Control-Allow-Methods", "GET")
		h.Set("Access-Control-Allow-Headers", "Content-Type")
		switch r.Method {
		case http.MethodGet, http.MethodHead:
		case http.MethodOptions:
			w.WriteHeader(http.StatusNoContent)
			return
		default:
			h.Set("Allow", "GET, HEAD, OPTIONS")
			http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
			return
		}
		h.Set("Content-Type", mediaType)
		h.Set("Cache-Control", "public, max-age=3600")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("ETag", tag)
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(body))
	})
}
