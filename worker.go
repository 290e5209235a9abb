package weir

import "github.com/weir-mcp/weir/internal/program"

// RunWorker must be the first call of main in an executable that serves a Gateway with programs (the
// tool tool_run). weir starts that executable once more for each program: in such a process RunWorker
// runs the program and does not return. In all others it returns at once. Without it programs are off,
// and the log says so.
func RunWorker() { program.RunWorker() }
