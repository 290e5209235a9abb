package dispatch

import (
	"encoding/json"
	"testing"

	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/catalog/primitive"
)

const sampleTool = `{"name":"read_file","title":"Read","description":"Read a file from disk.","inputSchema":{"type":"object","properties":{"path":{"type":"string"},"limit":{"type":"integer"}},"required":["path"]},"annotations":{"readOnlyHint":true}}`

// sampleCatalog returns a catalog of two servers, and of more listings.
func sampleCatalog(t testing.TB, more ...primitive.Listing) *catalog.Catalog {
	t.Helper()
	c := catalog.New(catalog.Limits{})
	for _, l := range append([]primitive.Listing{
		{Upstream: "files", Namespace: "files", Tools: []json.RawMessage{json.RawMessage(sampleTool),
			json.RawMessage(`{"name":"drop","description":"Delete a file.","inputSchema":{"type":"object"},"annotations":{"destructiveHint":true}}`)}},
		{Upstream: "web", Namespace: "web", Tools: []json.RawMessage{json.RawMessage(`{"name":"search","description":"Search the web for pages."}`)}},
	}, more...) {
		c, _ = c.With(l)
	}
	return c
}

// entryNamed returns the entry of a raw name.
func entryNamed(t testing.TB, c *catalog.Catalog, upstream, name string) *catalog.Entry {
	t.Helper()
	for _, e := range c.Of(upstream) {
		if e.RawName == name {
			return e
		}
	}
	t.Fatalf("no tool %s of %s", name, upstream)
	return nil
}
