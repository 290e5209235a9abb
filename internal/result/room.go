package result

import (
	"github.com/weir-mcp/weir/internal/limit/memory"
	"github.com/weir-mcp/weir/internal/limit/work"
	"github.com/weir-mcp/weir/mcp"
)

// scratch counts memory that a view uses again and again, such as a copy of one value.
type scratch struct {
	meter *work.Meter
	taken int
}

// need makes the memory one of so many bytes. It reports whether there is room.
func (s *scratch) need(bytes int) bool {
	if bytes <= s.taken {
		return s.meter.Err() == nil
	}
	err := s.meter.Take(int64(bytes - s.taken))
	s.taken = bytes
	return err == nil
}

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
