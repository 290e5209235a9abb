package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// endWithParent has the kernel end the process where this one is killed.
func endWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
}

// tick is the unit of times in /proc, which Linux fixes for programs.
const tick = 10 * time.Millisecond

// processorTime returns the processor time of a process and its children.
func processorTime(pid int) (total time.Duration) {
	files, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // the process has ended
		}
		own, rest, _ := bytes.Cut(text, []byte(" "))
		// The name stands in parentheses and may have any byte.
		fields := bytes.Fields(rest[bytes.LastIndexByte(rest, ')')+1:])
		if len(fields) < 13 || string(own) != strconv.Itoa(pid) && string(fields[1]) != strconv.Itoa(pid) {
			continue
		}
		user, _ := strconv.Atoi(string(fields[11]))
		system, _ := strconv.Atoi(string(fields[12]))
		total += time.Duration(user+system) * tick
	}
	return total
}
