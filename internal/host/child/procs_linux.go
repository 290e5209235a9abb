package child

import (
	"bytes"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// CanLimitMemory reports whether LimitMemory and Memory work on this system.
const CanLimitMemory = true

// maxProcs bounds the processes that are looked at.
const maxProcs = 1 << 16

// stat has the fields of /proc/PID/stat that are read.
type stat struct{ pid, parent, group, start, rss int }

// eachProcess calls f for every process of the system.
func eachProcess(f func(stat)) {
	dir, err := os.Open("/proc")
	if err != nil {
		return
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(maxProcs)
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			if s, ok := readStat(pid); ok {
				f(s)
			}
		}
	}
}

func readStat(pid int) (stat, bool) {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return stat{}, false // it has ended
	}
	// The second field, the name, may hold anything but ends with the last ")".
	rest := bytes.Fields(data[bytes.LastIndexByte(data, ')')+1:])
	if len(rest) < 22 {
		return stat{}, false
	}
	number := func(i int) int { n, _ := strconv.Atoi(string(rest[i])); return n }
	return stat{pid: pid, parent: number(1), group: number(2), start: number(19), rss: number(21)}, true
}

// alive reports whether the process is still the same.
func (s stray) alive() bool {
	now, ok := readStat(s.pid)
	return ok && now.start == s.start
}

// descendants lists the processes that a process, or a noted one, has started, directly or not, and
// that are still descendants: also the ones that have left its process group. It leaves out noted
// ones.
func descendants(pid int, before []stray) []stray {
	children := map[int][]stray{}
	eachProcess(func(s stat) { children[s.parent] = append(children[s.parent], stray{s.pid, s.start}) })
	seen := map[stray]bool{}
	queue := []int{pid}
	for _, s := range before {
		if seen[s] = true; s.alive() {
			queue = append(queue, s.pid)
		}
	}
	var all []stray
	for len(queue) > 0 && len(all) < maxProcs {
		for _, s := range children[queue[0]] {
			if !seen[s] {
				seen[s] = true
				all = append(all, s)
				queue = append(queue, s.pid)
			}
		}
		queue = queue[1:]
	}
	return all
}

// memoryOf returns the resident memory of a process's group, in bytes.
func memoryOf(pid int) int64 {
	var pages int64
	eachProcess(func(s stat) {
		if s.group == pid || s.pid == pid {
			pages += int64(s.rss)
		}
	})
	return pages * int64(os.Getpagesize())
}

// limitMemory bounds the memory that one process may write to, so that one which takes everything
// at once is stopped by the system, and not only seen afterwards.
func limitMemory(pid int, max int64) {
	limit := unix.Rlimit{Cur: uint64(2 * max), Max: uint64(2 * max)}
	_ = unix.Prlimit(pid, unix.RLIMIT_DATA, &limit, nil) // it may have ended
}
