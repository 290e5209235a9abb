package result

import (
	"github.com/weir-mcp/weir/internal/memory"
	"github.com/weir-mcp/weir/mcp"
)

// Room returns a function that makes a Hold one of so many bytes in all. Its error is of
// mcp.KindOverloaded if there is no room now: what a request makes weir hold does not wait for room,
// because it holds bytes already.
func Room(hold *memory.Hold) func(bytes int64) error {
	return func(bytes int64) error {
		if err := hold.Take(bytes); err != nil {
			return mcp.Errorf(mcp.KindOverloaded, "%w", err)
		}
		return nil
	}
}
