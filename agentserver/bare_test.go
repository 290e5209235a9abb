package agentserver

import (
	"bytes"
	"os/exec"

	"github.com/weir-mcp/weir/mcp"
)

// bareExec is what the standard library makes of it.
func bareExec(path string, c *command, stdin []byte) ([]byte, error) {
	cmd := exec.Command(path, c.args...)
	cmd.Env, cmd.Dir = c.env, c.dir
	cmd.Stdin = bytes.NewReader(stdin)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	return out.Bytes(), err
}

// localRequest is a request as a handler sees it.
func localRequest(method string, params []byte) *mcp.Request {
	return &mcp.Request{ID: "1", Method: method, Params: params, Version: mcp.V20250618, Session: mcp.NewSession("", mcp.LocalPrincipal), Peer: mcp.NoPeer}
}
