package mcp

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"strconv"
	"testing"
)

var update = flag.Bool("update", false, "write docs/errors.md anew")

// docs/errors.md is the error table; it is generated from Kinds.
func TestErrorsDoc(t *testing.T) {
	var b bytes.Buffer
	b.WriteString("# Errors\n\n" +
		"Generated from the table in mcp/errors.go (`go test ./mcp -run TestErrorsDoc -update`).\n\n" +
		"Every error that weir itself makes has a kind. It is the `data.kind` of the JSON-RPC error and\n" +
		"decides all other codes. Errors of upstreams are passed on unchanged and have no kind. *Again* means\n" +
		"that the same call may succeed later. A caller that posts to an agent server without session and\n" +
		"version gets the server's own codes, if the table has them.\n\n" +
		"| kind | meaning | JSON-RPC | HTTP | in a meta-tool's result | again |\n| --- | --- | --- | --- | --- | --- |\n")
	for _, k := range Kinds {
		again := ""
		if k.Retryable {
			again = "yes"
		}
		code := strconv.Itoa(k.JSONRPC)
		if k.Kind == KindResourceNotFound {
			code += "; -32602 from 2026-07-28 on"
		}
		if other, ok := Sessionless[k.Kind]; ok {
			code += "; " + strconv.Itoa(other) + " without session and version"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %d | `%s` | %s |\n", k.Name, k.Meaning, code, k.HTTP, k.Gateway, again)
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
