package selection_test

import (
	"fmt"

	"github.com/weir-mcp/weir/internal/search/selection"
)

// A model may choose among two tools; what it says is checked.
func Example() {
	offered := []string{"github:create_issue@1", "github:list_issues@1"}
	schema, _ := selection.Schema(offered, selection.JSONSchema)
	fmt.Println(string(schema))
	fmt.Printf("%+v\n", selection.Validate("GitHub:List_Issues@1", offered))
	fmt.Printf("%+v\n", selection.Validate("github:", offered))
	// Output:
	// {"type":"object","properties":{"selection":{"type":"string","enum":["github:create_issue@1","github:list_issues@1"]}},"required":["selection"],"additionalProperties":false}
	// {Status:repaired ID:github:list_issues@1 Rule:case_fold Reason:}
	// {Status:rejected ID: Rule: Reason:ambiguous_prefix}
}
