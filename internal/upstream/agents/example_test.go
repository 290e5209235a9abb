package agents_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/weir-mcp/weir/internal/upstream/agents"
)

// An agent makes itself known; in weir, package agentserver does that.
func Example() {
	r := agents.New(agents.Options{Changed: func() { fmt.Println("upstreams change") }})
	srv := httptest.NewServer(r)
	defer srv.Close()
	resp, err := http.Post(srv.URL+"/agents", "application/json", strings.NewReader(`{"name":"stock","instance":"x1","url":"http://127.0.0.1:7000/mcp"}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	for _, a := range r.Agents() {
		fmt.Println(resp.StatusCode, a.Name, a.URL)
	}
	// Output:
	// upstreams change
	// 200 stock http://127.0.0.1:7000/mcp
}
