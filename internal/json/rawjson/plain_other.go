//go:build !amd64

package rawjson

// plainBlocks returns the length of the blocks at the start of data that have no quote, backslash or
// control character.
func plainBlocks(data []byte) int { return plainWords(data) }
