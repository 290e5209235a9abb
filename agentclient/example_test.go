package agentclient_test

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"

	"github.com/weir-mcp/weir/agentclient"
	"github.com/weir-mcp/weir/agentserver"
)

func Example() {
	// An agent, in the place of a router with agents behind it.
	greet := func(_ context.Context, in struct {
		Name string `json:"name"`
	}) (string, error) {
		return "Hello, " + in.Name + "!", nil
	}
	s, err := agentserver.New(agentserver.Options{Name: "greeter", Tools: []agentserver.Tool{agentserver.Func("greet", "Greets.", greet)}})
	if err != nil {
		fmt.Println(err)
		return
	}
	router := httptest.NewServer(s.Handler())
	defer router.Close()

	ctx := context.Background()
	defer s.Close(ctx)
	c, err := agentclient.New(router.URL, "token", agentclient.WithEnv(func(string) string { return "" }))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	result, err := c.CallTool(ctx, "greeter", "greet", map[string]string{"name": "Ann"})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(result.Text())

	var answered *agentclient.Error
	if _, err := c.CallTool(ctx, "greeter", "greet", nil); errors.As(err, &answered) {
		fmt.Println(answered.Code)
	}
	// Output:
	// "Hello, Ann!"
	// -32602
}
