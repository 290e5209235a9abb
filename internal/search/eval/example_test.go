package eval_test

import (
	"context"
	"fmt"

	"github.com/weir-mcp/weir/internal/search/eval"
)

// Run scores the ranking on every set below a directory; Report.WriteTable prints the same as a table.
func ExampleRun() {
	report, err := eval.Run(context.Background(), "testdata/sets", eval.Options{Sets: []string{"harbour_words"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	row := report.Rows[0]
	fmt.Printf("%s: %d tools, %d queries, %.0f%% answered in the first five\n", row.Set, row.Tools, row.Queries, 100*row.R5)
	// Output: harbour_words: 40 tools, 10 queries, 100% answered in the first five
}
