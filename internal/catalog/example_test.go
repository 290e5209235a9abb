package catalog_test

import (
	"encoding/json"
	"fmt"

	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/catalog/primitive"
)

func Example() {
	c, report := catalog.New(catalog.Limits{}).With(primitive.Listing{
		Upstream:  "github",
		Namespace: "github",
		Tools: []json.RawMessage{json.RawMessage(`{
			"name": "github.create_issue",
			"description": "Creates an issue in a repository.",
			"inputSchema": {"type": "object", "properties": {"repo": {"type": "string"}}, "required": ["repo"]},
			"_meta": {"version": "1.4.0"}
		}`)},
	})
	fmt.Println(report.Tools, "tool,", len(report.Findings), "findings")

	cards, _ := c.Children("/github")
	fmt.Println(cards[0].Render())

	entry, _ := c.Lookup("github:create_issue@1.4.0")
	fmt.Println(entry.RawName)
	fmt.Println(entry.Validate(json.RawMessage(`{"repo": 7}`)))
	fmt.Println(c.Nearest("github:create_isue", 1))
	// Output:
	// 1 tool, 0 findings
	// github:create_issue@1.4.0 (repo) — Creates an issue in a repository. side-effects
	// github.create_issue
	// arguments of github:create_issue@1.4.0 are invalid: /repo: must be string, got number
	// [github:create_issue@1.4.0]
}
