package rawjson

// plainBlocks returns the length of the blocks at the start of data that have no quote, backslash or
// control character. It uses SSE2, which each processor with this instruction set has. Without it,
// the search takes three passes, and the one for control characters is the longest.
//
//go:noescape
func plainBlocks(data []byte) int
