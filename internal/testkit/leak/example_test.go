package leak_test

import (
	"fmt"
	"time"

	"github.com/weir-mcp/weir/internal/testkit/leak"
)

// A package asks once, in TestMain, with leak.Main(m). A test that wants to know earlier asks itself.
func ExampleWait() {
	left := leak.Wait(5 * time.Second)
	fmt.Println(len(left), "goroutines to explain")
	// Output: 0 goroutines to explain
}
