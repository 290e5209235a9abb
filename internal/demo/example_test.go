package demo_test

import (
	"context"
	"fmt"
	"io"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/weir-mcp/weir/internal/demo"
)

// A demo server is served on two streams and ends when its input does.
func Example() {
	serverIn, clientOut := io.Pipe()
	clientIn, serverOut := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- demo.Run(context.Background(), "notes", demo.Options{}, serverIn, serverOut, nil) }()

	client := mcp.NewClient(&mcp.Implementation{Name: "example", Version: "1"}, nil)
	session, err := client.Connect(context.Background(), &mcp.IOTransport{Reader: clientIn, Writer: clientOut}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	tools, err := session.ListTools(context.Background(), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, tool := range tools.Tools {
		fmt.Println(tool.Name, "-", tool.Title)
	}
	_ = session.Close()
	fmt.Println(<-ended)
	// Output:
	// create_note - Create a note
	// delete_note - Delete a note
	// list_notes - List notes
	// read_note - Read a note
	// search_notes - Search notes
	// <nil>
}
