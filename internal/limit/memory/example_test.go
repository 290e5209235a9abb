package memory_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"strings"

	"github.com/weir-mcp/weir/internal/limit/memory"
)

// A large message is received into a file, and read as if it were in memory.
func ExamplePool() {
	pool := memory.NewPool(memory.Options{Limit: 16 << 20, SpillAt: 1 << 20, Dir: os.TempDir()})
	defer pool.Close()
	ctx, scope := memory.WithScope(context.Background())
	defer scope.End() // the bytes are gone

	buffer := pool.Account(`upstream "files"`).NewBuffer(ctx, 8<<20)
	if err := buffer.Fill(strings.NewReader(strings.Repeat("a long result ", 200_000)), -1); err != nil {
		log.Fatal(err)
	}
	block, err := buffer.Block()
	if err != nil {
		log.Fatal(err)
	}
	all, err := block.Open(ctx)
	if err != nil {
		log.Fatal(err)
	}
	result := block.Deliver(ctx, all[2:6])
	fmt.Println(block.InFile(), len(all), string(result))
	// Output: true 2800000 long
}
