package search_test

import (
	"fmt"

	"github.com/weir-mcp/weir/internal/search"
)

// An index is built one upstream at a time. It never changes: a refresh makes another one.
func Example() {
	ix := search.New(search.Options{}).
		With("files", []search.Doc{
			{ID: "files:read_file", Name: "read_file", Description: "Reads a text file."},
			{ID: "files:list_directory", Name: "list_directory", Description: "Names what is in a directory."},
		}).
		With("mail", []search.Doc{
			{ID: "mail:send", Name: "send_message", Description: "Sends a message to a person.", Params: []search.Param{{Name: "to", Description: "Address of the person"}}},
		})
	for _, hit := range ix.Search("what is in my folder?", 3) {
		fmt.Println(hit.ID)
	}
	for _, hit := range ix.Without("mail").Search("send a mail", 3) {
		fmt.Println(hit.ID)
	}
	// Output:
	// files:list_directory
	// files:read_file
}
