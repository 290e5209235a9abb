// Worker is the worker of tests under the race detector, without the race detector: the engine is many times slower
// with it, and has one goroutine.
package main

import "github.com/weir-mcp/weir/internal/program"

func main() { program.RunWorker() }
