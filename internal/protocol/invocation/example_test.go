package invocation_test

import (
	"fmt"

	"github.com/weir-mcp/weir/internal/protocol/invocation"
)

func Example() {
	shared := []byte("32 bytes or more, known to both..")
	router, err := invocation.NewSigner("weir", shared)
	if err != nil {
		fmt.Println(err)
		return
	}
	agent, err := invocation.NewVerifier("files", shared)
	if err != nil {
		fmt.Println(err)
		return
	}
	token, _ := router.Sign("ann", "files", "read")
	claims, err := agent.Verify(token)
	fmt.Println(claims.Principal, claims.Tool, err)
	_, err = agent.Verify(token)
	fmt.Println(err)
	// Output:
	// ann read <nil>
	// the invocation token is refused: it was used before
}
