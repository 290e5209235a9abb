package worker

import (
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// needed are the system calls of the runtime of Go in a program that reads and writes its pipes. All others fail: what
// is no file is not Landlock's, such as the limits of another process of the same user.
var needed = []uint32{
	unix.SYS_READ, unix.SYS_WRITE, unix.SYS_READV, unix.SYS_WRITEV, unix.SYS_CLOSE, unix.SYS_FCNTL,
	unix.SYS_MMAP, unix.SYS_MUNMAP, unix.SYS_MPROTECT, unix.SYS_MREMAP, unix.SYS_MADVISE, unix.SYS_MINCORE, unix.SYS_BRK,
	unix.SYS_EXIT, unix.SYS_EXIT_GROUP, unix.SYS_GETTID, unix.SYS_GETPID, unix.SYS_GETPPID,
	unix.SYS_FUTEX, unix.SYS_SCHED_YIELD, unix.SYS_SCHED_GETAFFINITY, unix.SYS_NANOSLEEP, unix.SYS_CLOCK_NANOSLEEP,
	unix.SYS_CLOCK_GETTIME, unix.SYS_GETTIMEOFDAY, unix.SYS_RESTART_SYSCALL, unix.SYS_GETRANDOM, unix.SYS_MEMBARRIER,
	unix.SYS_RT_SIGACTION, unix.SYS_RT_SIGPROCMASK, unix.SYS_RT_SIGRETURN, unix.SYS_SIGALTSTACK,
	unix.SYS_SET_ROBUST_LIST, unix.SYS_RSEQ, unix.SYS_EPOLL_CREATE1, unix.SYS_EPOLL_CTL, unix.SYS_EPOLL_PWAIT, unix.SYS_EVENTFD2,
	unix.SYS_GETRLIMIT, unix.SYS_SETRLIMIT, unix.SYS_GETRUSAGE,
}

// ownOnly are system calls whose first argument must be a number of this process.
func ownOnly() map[uint32]uint32 {
	return map[uint32]uint32{
		unix.SYS_TGKILL:    uint32(os.Getpid()), // preemption of goroutines
		unix.SYS_PRLIMIT64: 0,
		unix.SYS_PRCTL:     unix.PR_SET_VMA, // names of mappings
	}
}

// Offsets in struct seccomp_data.
const (
	numberAt   = 0
	archAt     = 4
	argumentAt = 16
)

// filterCalls has the kernel refuse all system calls but the needed ones, on all threads and for good. A refused call
// fails with EPERM.
func filterCalls() error {
	var arch uint32
	switch runtime.GOARCH {
	case "amd64":
		arch = unix.AUDIT_ARCH_X86_64
	case "arm64":
		arch = unix.AUDIT_ARCH_AARCH64
	default:
		return unix.ENOSYS
	}
	load := func(at uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: at}
	}
	ifEqual := func(k uint32, yes, no uint8) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jt: yes, Jf: no, K: k}
	}
	answer := func(k uint32) unix.SockFilter { return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: k} }
	allow, refuse := answer(unix.SECCOMP_RET_ALLOW), answer(unix.SECCOMP_RET_ERRNO|uint32(unix.EPERM))

	// Numbers of other instruction sets mean other calls.
	filter := []unix.SockFilter{load(archAt), ifEqual(arch, 1, 0), refuse, load(numberAt)}
	for call, own := range ownOnly() {
		filter = append(filter, ifEqual(call, 0, 4), load(argumentAt), ifEqual(own, 0, 1), allow, refuse)
	}
	// Threads, and no processes. The flags of clone3 are in memory, where no filter sees them: who has no clone3 uses clone.
	set := unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K, Jt: 0, Jf: 1, K: unix.CLONE_THREAD}
	filter = append(filter, ifEqual(unix.SYS_CLONE, 0, 4), load(argumentAt), set, allow, refuse)
	filter = append(filter, ifEqual(unix.SYS_CLONE3, 0, 1), answer(unix.SECCOMP_RET_ERRNO|uint32(unix.ENOSYS)))
	for _, call := range needed {
		filter = append(filter, ifEqual(call, 0, 1), allow)
	}
	filter = append(filter, refuse)
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	thread, _, err := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&program)))
	runtime.KeepAlive(filter)
	switch {
	case err != 0:
		return err
	case thread != 0: // it could not be made to follow
		return unix.ESRCH
	}
	return nil
}
