package sandbox

import (
	"os"
	"strconv"
	"syscall"
)

// processes returns the bound of the processes and threads of this user for a program that starts now.
func processes() int {
	proc, err := os.Open("/proc")
	if err != nil {
		return 0
	}
	defer proc.Close()
	names, err := proc.Readdirnames(-1)
	if err != nil {
		return 0
	}
	count, me := 0, uint32(os.Getuid())
	for _, name := range names {
		if _, err := strconv.Atoi(name); err != nil {
			continue
		}
		if user, threads := tasks(name); user == me {
			count += threads
		}
	}
	return count + maxProcesses
}

// tasks returns the user and the threads of a process. The kernel counts each thread as a link of its folder, so that no
// folder has to be read; a process that has ended has none.
func tasks(pid string) (user uint32, threads int) {
	var stat syscall.Stat_t
	if syscall.Stat("/proc/"+pid+"/task", &stat) != nil {
		return 0, 0
	}
	return stat.Uid, max(1, int(stat.Nlink)-2)
}
