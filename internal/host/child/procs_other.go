//go:build !linux

package child

// CanLimitMemory reports whether LimitMemory and Memory work on this system.
const CanLimitMemory = false

// The descendants of a process are known only on Linux; elsewhere its group is ended.
func descendants(int, []stray) []stray { return nil }

func (stray) alive() bool { return false }

func memoryOf(int) int64 { return 0 }

func limitMemory(int, int64) {}
