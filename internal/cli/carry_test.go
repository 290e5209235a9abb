package cli

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/weir-mcp/weir/internal/gateway"
	"github.com/weir-mcp/weir/internal/json/rawjson"
)

// TestTablesGoToAComputer: what a server of this machine keeps reaches a tool on a
// Computer, over a hub, although the Computer cannot fetch from this gateway; and
// so does what another tool of the Computer returns.
func TestTablesGoToAComputer(t *testing.T) {
	t.Parallel()
	s := serve(t, fmt.Sprintf("mcpServers:\n  weather: {command: %q, args: [demo, weather]}\n  inventory: {type: http, command: %q, args: [demo, inventory, --listen, \"127.0.0.1:${weir:port}\"], url: \"http://127.0.0.1:${weir:port}/mcp\"}\nhub:\n  tokens: [{name: desk, sha256: %x, role: computer, offices: [weir]}]\n",
		weirBin, weirBin, sha256.Sum256([]byte("t0ken-of-the-desk"))))
	dir := t.TempDir()
	config := filepath.Join(dir, "mcp.json")
	text, err := json.Marshal(map[string]any{"mcpServers": map[string]any{
		// Neither may fetch from anywhere: the rows come with the call.
		"chart":   map[string]any{"command": weirBin, "args": []string{"demo", "chart"}, "default_tool_meta": map[string]any{"auto_apply": true}},
		"weather": map[string]any{"command": weirBin, "args": []string{"demo", "weather"}, "default_tool_meta": map[string]any{"auto_apply": true}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(config, text, 0o600); err != nil {
		t.Fatal(err)
	}
	startComputer(t, dir, "WEIR_HUB_TOKEN=t0ken-of-the-desk", "--hub", s.url[:len(s.url)-len("/mcp")], "--name", "desk", "--config", config, "--batch")
	for _, name := range []string{"weather", "inventory", "desk-chart", "desk-weather"} {
		s.await(name+" is an upstream", func(h gateway.Health) bool { return h.Upstreams[name].Tools > 0 })
	}
	draw := s.tool("desk-chart:draw_chart")
	for tool, c := range map[string]struct{ args, column, value string }{
		"weather:get_alerts":      {`{"rows":3}`, "event", "wind_kmh"}, // at its own data plane
		"inventory:list_products": {`{}`, "sku", "price"},              // in the gateway's store
		"desk-weather:get_alerts": {`{"rows":3}`, "event", "wind_kmh"}, // of the Computer
	} {
		got := weir(t, "call", "--url", s.url, s.tool(tool), "--columns", c.column, "--json", c.args).want(t, exitOK, "resource_url")
		answer := []byte(got.stdout)
		var rows []json.RawMessage
		if err := json.Unmarshal(rawjson.Get(answer, "abstract"), &rows); err != nil || len(rows) < 2 {
			t.Fatalf("%s: %v in %s", tool, err, answer)
		}
		args, err := json.Marshal(map[string]string{
			"abstract_data": fmt.Sprintf("[%s,%s]", rows[0], rows[1]), "resource_url": rawjson.Text(rawjson.Get(answer, "resource_url")),
			"column_mapping": fmt.Sprintf(`{%q:"label",%q:"value"}`, c.column, c.value),
		})
		if err != nil {
			t.Fatal(err)
		}
		weir(t, "call", "--url", s.url, draw, "--json", string(args)).want(t, exitOK, "Drew", "2 rows")
		weir(t, "call", "--url", s.url, draw, "--json", string(args)).want(t, exitUsage, "works once")
	}
}
