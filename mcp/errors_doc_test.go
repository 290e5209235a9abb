package mcp

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"testing"
)

var update = flag.Bool("update", false, "write docs/errors.md anew")

// docs/errors.md is the error table; it is generated from Kinds.
func TestErrorsDoc(t *testing.T) {
	var b bytes.Buffer
	b.WriteString("# Errors\n\n" +
		"Generated from the table in mcp/errors.go (`go test ./mcp -run TestErrorsDoc -update`).\n\n" +
		"Every error that weir itself makes has a kind. It stands in the `data.kind` of a JSON-RPC error, and decides all other\n" +
		"codes. What an upstream answers is passed on as it came and has no kind. *Again* says that the same call may succeed later.\n\n" +
		"| kind | meaning | JSON-RPC | HTTP | in a meta-tool's result | again |\n| --- | --- | --- | --- | --- | --- |\n")
	for _, k := range Kinds {
		again := ""
		if k.Retryable {
			again = "yes"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %d | %d | `%s` | %s |\n", k.Name, k.Meaning, k.JSONRPC, k.HTTP, k.Gateway, again)
	}
	const file = "../docs/errors.md"
	if *update {
		if err := os.MkdirAll("../docs", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, b.Bytes()) {
		t.Errorf("%s is not what mcp/errors.go says: run go test ./mcp -run TestErrorsDoc -update", file)
	}
}
