// Package worker is the process that runs one program. It reads frames of package wire from its
// standard input, answers on its standard output, and ends.
//
//	start ─▶ scope ─▶ walls ─▶ Ready ─▶ Start: limits, program ─▶ requests and answers ─▶ End or Fail
//
// The walls are up before the first byte of a program is read. A program that takes over the engine
// is still within them.
//
// It knows nothing of what the host does with a request.
package worker
