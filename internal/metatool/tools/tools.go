// Package tools selects tools of a catalog for commands and the API: by name or by prefix, with their
// definitions if these are asked for. It knows no caller.
package tools

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/catalog/primitive"
	"github.com/weir-mcp/weir/internal/dispatch"
	"github.com/weir-mcp/weir/internal/text/visible"
)

// A Tool is a tool of the catalog as shell commands read it. The fields of its definition are set
// only if definitions were asked for.
type Tool struct {
	ID          string `json:"id"`
	Short       string `json:"short"` // namespace:name, or the id if that is not unique
	Name        string `json:"name"`
	Server      string `json:"server"`
	Title       string `json:"title,omitempty"`
	Description string `json:"description,omitempty"`

	InputSchema  json.RawMessage `json:"inputSchema,omitempty"`
	OutputSchema json.RawMessage `json:"outputSchema,omitempty"`
	Annotations  json.RawMessage `json:"annotations,omitempty"`
	// Listed is the definition of the server, where the configuration changes it; see mcpServers.NAME.overrides.
	Listed json.RawMessage `json:"listed,omitempty"`

	// Tags and hints, as the policy reads them.
	Tags        []string `json:"tags,omitempty"`
	ReadOnly    bool     `json:"read_only,omitempty"`
	Destructive bool     `json:"destructive,omitempty"`
	Idempotent  bool     `json:"idempotent,omitempty"`
	OpenWorld   bool     `json:"open_world,omitempty"`
}

// A Query selects tools of the catalog.
type Query struct {
	// Name is an id, an id without its hash, or a tool's own name. If it names no tool exactly, its
	// case is ignored.
	Name string
	// Prefix is the beginning of an id or of a tool's own name. It is used if Name is empty.
	Prefix string
	// Definitions adds the schemas, annotations and whole descriptions.
	Definitions bool
}

// A List is the answer to a Query, sorted by id.
type List struct {
	Tools []Tool `json:"tools"`
	// Total counts the tools that fit, including those beyond maxTools.
	Total int `json:"total"`
}

// Limits on a List.
const (
	maxTools       = 5000
	maxDefinitions = 20
	toolLine       = 120 // characters of a description without a definition
)

// Find returns the tools of c that fit q. redact removes secrets from raw JSON.
func Find(c *catalog.Catalog, q Query, redact func([]byte) []byte) List {
	var tools []*catalog.Entry
	shorts := map[string]int{}
	for _, entry := range c.Entries() {
		if entry.Kind == primitive.KindTool {
			tools = append(tools, entry)
			shorts[shortID(entry)]++
		}
	}
	fits := func(fit func(text string) bool) []*catalog.Entry {
		return slices.DeleteFunc(slices.Clone(tools), func(t *catalog.Entry) bool {
			return !fit(t.ID) && !fit(shortID(t)) && !fit(t.RawName) && !fit(t.Upstream+":"+t.RawName)
		})
	}
	var found []*catalog.Entry
	switch {
	case q.Name == "":
		found = fits(func(text string) bool { return strings.HasPrefix(text, q.Prefix) })
	default:
		if found = fits(func(text string) bool { return text == q.Name }); len(found) == 0 {
			found = fits(func(text string) bool { return strings.EqualFold(text, q.Name) })
		}
	}
	list := List{Tools: []Tool{}, Total: len(found)}
	most := maxTools
	if q.Definitions {
		most = maxDefinitions
	}
	for _, entry := range found[:min(most, len(found))] {
		t := Tool{ID: entry.ID, Short: shortID(entry), Name: entry.RawName, Server: entry.Upstream, Title: visible.Text(entry.Title)}
		if shorts[t.Short] > 1 {
			t.Short = entry.ID
		}
		t.Description = visible.Text(entry.Description)
		if q.Definitions {
			part := func(raw []byte) json.RawMessage { return redact(dispatch.ShownSchema(entry, raw)) }
			t.InputSchema, t.OutputSchema, t.Annotations = part(entry.InputSchema), part(entry.OutputSchema), part(entry.Annotations)
			t.Listed = part(entry.Listed)
			t.Tags, t.ReadOnly, t.Destructive, t.Idempotent, t.OpenWorld = entry.Tags, entry.ReadOnly, entry.Destructive, entry.Idempotent, entry.OpenWorld
			if t.InputSchema == nil {
				t.InputSchema = json.RawMessage(`{"type":"object"}`)
			}
		} else {
			t.Description = firstLine(t.Description)
		}
		t.Title, t.Description = redactedText(t.Title, redact), redactedText(t.Description, redact)
		list.Tools = append(list.Tools, t)
	}
	return list
}

// shortID returns the id of an entry without its version and its hash.
func shortID(e *catalog.Entry) string { return e.Namespace + ":" + e.Name }

// firstLine returns the first line of a description, with a bound.
func firstLine(description string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(description), "\n")
	if runes := []rune(line); len(runes) > toolLine {
		return string(runes[:toolLine-1]) + "…"
	}
	return line
}

// redactedText redacts a text as a JSON string.
func redactedText(text string, redact func([]byte) []byte) string {
	raw, err := json.Marshal(text)
	if err != nil {
		return text // cannot happen: a string
	}
	var clean string
	if json.Unmarshal(redact(raw), &clean) != nil {
		return "" // cannot happen: redact keeps JSON valid
	}
	return clean
}
