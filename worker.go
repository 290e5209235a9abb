package weir

import (
	"github.com/weir-mcp/weir/internal/host/sandbox"
	"github.com/weir-mcp/weir/internal/program"
)

// RunWorker must be the first call of main in an executable that serves a Gateway with programs (the
// tool tool_run) or with servers in sandboxes. weir starts that executable once more for each program,
// and for each such server: in such a process RunWorker does not return. In all others it returns at
// once. Without it programs are off, and servers with a sandbox do not start; the log says so.
func RunWorker() {
	sandbox.Run()
	program.RunWorker()
}
