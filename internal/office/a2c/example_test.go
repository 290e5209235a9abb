package a2c_test

import (
	"fmt"

	"github.com/weir-mcp/weir/internal/office/a2c"
)

// The same refusal in the words of three dialects.
func ExampleDialect_JoinFailed() {
	for _, d := range []a2c.Dialect{a2c.Draft, a2c.Dialect01, a2c.Dialect05} {
		for _, arg := range d.JoinFailed(a2c.ErrRoomTaken) {
			fmt.Println(d, string(arg))
		}
	}
	// Output:
	// draft false
	// draft "Agent sid should equal office_id"
	// 0.1 false
	// 0.1 "Internal server error: Agent already in room"
	// 0.5 {"code":4101,"message":"Agent already in room","details":{}}
}
