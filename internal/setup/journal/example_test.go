package journal_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/weir-mcp/weir/internal/json/splice"
	"github.com/weir-mcp/weir/internal/setup/journal"
)

func Example() {
	dir, err := os.MkdirTemp("", "journal")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	j, err := journal.Open(filepath.Join(dir, "state"))
	if err != nil {
		panic(err)
	}
	op := j.Begin("connect", "weir into client.json")
	change, err := op.Edit(filepath.Join(dir, "client.json"), splice.JSON, []journal.Edit{
		{Path: splice.Path{"mcpServers", "weir"}, Value: splice.Object{{Key: "url", Value: "http://127.0.0.1:8080/mcp"}}},
	})
	if err != nil {
		panic(err)
	}
	fmt.Print(string(change.After))
	ctx, stop := context.WithCancel(context.Background())
	stop() // An ended context skips the second look at the files.
	if _, err := op.Apply(ctx); err != nil {
		panic(err)
	}
	undone, err := j.Undo(context.Background(), 0)
	if err != nil {
		panic(err)
	}
	_, err = os.Stat(filepath.Join(dir, "client.json"))
	fmt.Println(undone.Files[0].Exact, os.IsNotExist(err))

	_, err = j.Undo(context.Background(), 0)
	switch {
	case errors.Is(err, journal.ErrNothing):
		fmt.Println(err)
	case errors.Is(err, journal.ErrChanged), errors.Is(err, journal.ErrLost):
		fmt.Println("another program writes the file:", err)
	}
	// Output:
	// {
	//   "mcpServers": {
	//     "weir": {
	//       "url": "http://127.0.0.1:8080/mcp"
	//     }
	//   }
	// }
	// true true
	// there is nothing to undo
}
