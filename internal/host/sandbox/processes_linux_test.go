package sandbox

import (
	"os"
	"testing"
)

// TestTasks: the links of a folder of /proc are the threads of a process.
func TestTasks(t *testing.T) {
	var user uint32
	var threads, read int
	for range 20 { // the runtime may start one between
		user, threads = tasks("self")
		folders, err := os.ReadDir("/proc/self/task")
		if err != nil {
			t.Fatal(err)
		}
		if read = len(folders); threads == read {
			break
		}
	}
	if threads != read || user != uint32(os.Getuid()) {
		t.Errorf("%d threads of user %d, and there are %d of %d", threads, user, read, os.Getuid())
	}
	if got := processes(); got < maxProcesses+threads {
		t.Errorf("the bound is %d", got)
	}
}
