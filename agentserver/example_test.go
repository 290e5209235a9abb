package agentserver_test

import (
	"context"
	"fmt"
	"net"

	"github.com/weir-mcp/weir/agentclient"
	"github.com/weir-mcp/weir/agentserver"
)

type pair struct {
	A int `json:"a" jsonschema:"the first number"`
	B int `json:"b" jsonschema:"the second number"`
}

func add(_ context.Context, in pair) (int, error) { return in.A + in.B, nil }

// An agent with one tool, a Go function, and a call of it.
func Example() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	ready, over := make(chan net.Addr, 1), make(chan error, 1)
	go func() {
		over <- agentserver.Run(ctx, agentserver.Options{
			Name:  "sums",
			Addr:  "127.0.0.1:0",
			Tools: []agentserver.Tool{agentserver.Func("add", "Adds two numbers.", add)},
			Ready: func(a net.Addr) { ready <- a },
		})
	}()
	c, err := agentclient.New((<-ready).String(), "")
	if err != nil {
		fmt.Println(err)
		return
	}
	result, err := c.CallTool(ctx, "sums", "add", pair{1, 2})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(result.Text(), string(result.StructuredContent))
	c.Close()
	stop()
	fmt.Println(<-over)
	// Output:
	// 3 {"result":3}
	// <nil>
}
