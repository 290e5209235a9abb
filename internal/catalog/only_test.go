package catalog

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/catalog/primitive"
)

// TestOnlyDescribesKeptServers: the cards of a part say nothing of a server of which no entry is
// kept, in each order of the servers.
func TestOnlyDescribesKeptServers(t *testing.T) {
	tools := func(names ...string) (all []json.RawMessage) {
		for _, name := range names {
			all = append(all, json.RawMessage(`{"name":"`+name+`","inputSchema":{"type":"object"}}`))
		}
		return all
	}
	for _, order := range [][2]int{{1, 2}, {2, 1}} {
		c := New(Limits{})
		c, _ = c.With(primitive.Listing{Upstream: "vault", Namespace: "shared", Order: order[0], About: "Keeps the codes of the safe.", Tools: tools("open_safe", "read")})
		c, _ = c.With(primitive.Listing{Upstream: "web", Namespace: "shared", Order: order[1], About: "Searches the web.", Tools: tools("search", "fetch")})
		for _, tt := range []struct {
			keep func(*Entry) bool
			want string
		}{
			{func(e *Entry) bool { return e.Upstream == "web" }, "Searches the web; 2 tools: fetch, search"},
			{func(e *Entry) bool { return e.RawName == "search" }, "Searches the web; 1 tool: search"},
			{func(e *Entry) bool { return e.Upstream == "vault" }, "Keeps the codes of the safe; 2 tools: open_safe, read"},
		} {
			cards, err := c.Only(tt.keep).Children("/")
			if err != nil || len(cards) != 1 || cards[0].Description != tt.want {
				t.Errorf("%v: %+v, %v, want %q", order, cards, err, tt.want)
			}
		}
		part := c.Only(func(e *Entry) bool { return e.RawName != "open_safe" })
		cards, err := part.Children("/")
		if err != nil || len(cards) != 1 || strings.Contains(cards[0].Description, "open_safe") {
			t.Errorf("%+v, %v", cards, err)
		}
	}
}
