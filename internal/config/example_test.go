package config_test

import (
	"fmt"

	"github.com/weir-mcp/weir/internal/config"
)

func Example() {
	text := `
mcpServers:
  files:
    command: npx
    args: [-y, "@modelcontextprotocol/server-filesystem", "${ROOT:-/srv}"]
  web:
    url: https://mcp.example.com/mcp
    headers: {Authorization: "Bearer ${env:WEB_TOKEN}"}
`
	c, _, err := config.Parse("weir.yaml", []byte(text), config.Options{
		LookupEnv: func(name string) (string, bool) { return "s3cr3t-token", name == "WEB_TOKEN" },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, s := range c.Servers {
		fmt.Println(s.Name, s.Type, s.Command, s.Args, s.URL, s.Headers)
	}
	// Output:
	// files stdio npx [-y @modelcontextprotocol/server-filesystem /srv]  map[]
	// web http  [] https://mcp.example.com/mcp map[Authorization:[redacted]]
}

func ExampleError() {
	_, _, err := config.Parse("weir.yaml", []byte(`
mcpServers:
  files:
    comand: npx
    timeout: soon
`), config.Options{Strict: true})
	fmt.Println(err)
	// Output:
	// weir.yaml:3:3: mcpServers.files has neither command nor url; give the program to start or the URL to call
	// weir.yaml:4:5: unknown key "comand" in mcpServers.files; did you mean "command"?
	// weir.yaml:5:14: mcpServers.files.timeout must be a duration such as "30s", or a number of seconds, not the text "soon"
}
