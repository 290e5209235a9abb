package confine

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// refused are system calls that a server does not need, and by which it would reach other processes, keyrings of the user,
// or the kernel.
var refused = []uint32{
	unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV, unix.SYS_KCMP, unix.SYS_PIDFD_GETFD,
	unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY, unix.SYS_KEYCTL,
	unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_CHROOT, unix.SYS_SETNS, unix.SYS_MOVE_MOUNT, unix.SYS_OPEN_TREE,
	unix.SYS_FSOPEN, unix.SYS_FSMOUNT, unix.SYS_FSCONFIG, unix.SYS_MOUNT_SETATTR, unix.SYS_OPEN_BY_HANDLE_AT, unix.SYS_QUOTACTL, unix.SYS_ACCT,
	unix.SYS_SWAPON, unix.SYS_SWAPOFF, unix.SYS_REBOOT, unix.SYS_SETHOSTNAME, unix.SYS_SETDOMAINNAME,
	unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE, unix.SYS_KEXEC_LOAD, unix.SYS_KEXEC_FILE_LOAD, unix.SYS_SYSLOG,
	unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN, unix.SYS_USERFAULTFD, unix.SYS_CLOCK_SETTIME, unix.SYS_SETTIMEOFDAY, unix.SYS_ADJTIMEX,
	unix.SYS_IO_URING_SETUP, // it would make calls that no filter sees; programs go on without it
}

// refusedUnboxed are system calls that reach memory, queues and semaphores which other processes share by name. In namespaces
// of its own a program finds only its own ones.
var refusedUnboxed = []uint32{
	unix.SYS_SHMGET, unix.SYS_SHMAT, unix.SYS_SHMCTL, unix.SYS_SEMGET, unix.SYS_SEMOP, unix.SYS_SEMTIMEDOP, unix.SYS_SEMCTL,
	unix.SYS_MSGGET, unix.SYS_MSGSND, unix.SYS_MSGRCV, unix.SYS_MSGCTL, unix.SYS_MQ_OPEN, unix.SYS_MQ_UNLINK,
}

// Offsets in struct seccomp_data.
const (
	numberAt   = 0
	archAt     = 4
	argumentAt = 16 // of the first argument; each has 8 bytes
)

// filter has the kernel refuse calls that no server needs, for all threads and for good, and sockets by which a program would
// get around Landlock: without w.Boxed sockets of the file system, at which Docker, the agent of SSH and the keyring listen,
// and with w.Offline sockets of other protocols than TCP, such as UDP and MPTCP, which Landlock does not bound. Pairs of
// sockets stay.
func filter(w Walls) error {
	arch, err := Architecture()
	if err != nil {
		return err
	}
	jump := func(how uint16, k uint32, yes, no uint8) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | how | unix.BPF_K, Jt: yes, Jf: no, K: k}
	}
	ifEqual := func(k uint32, yes, no uint8) unix.SockFilter { return jump(unix.BPF_JEQ, k, yes, no) }
	load := func(at uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: at}
	}
	answer := func(k uint32) unix.SockFilter { return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: k} }
	allow, refuse := answer(unix.SECCOMP_RET_ALLOW), answer(unix.SECCOMP_RET_ERRNO|uint32(unix.EPERM))

	// Numbers of other instruction sets mean other calls.
	code := []unix.SockFilter{load(archAt), ifEqual(arch, 1, 0), refuse, load(numberAt)}
	if runtime.GOARCH == "amd64" {
		const x32 = 0x40000000 // numbers from here on are of another ABI
		code = append(code, jump(unix.BPF_JGE, x32, 0, 1), refuse)
	}
	calls := refused
	if !w.Boxed {
		calls = slices.Concat(refused, refusedUnboxed)
	}
	for _, call := range calls {
		code = append(code, ifEqual(call, 0, 1), refuse)
	}
	families := []uint32{unix.AF_NETLINK} // the own addresses and routes are asked for there
	internet := []unix.SockFilter{allow}
	if w.Boxed {
		families = append(families, unix.AF_UNIX)
	} else if w.Offline {
		internet = []unix.SockFilter{
			load(argumentAt + 8), {Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: 0xf}, ifEqual(unix.SOCK_STREAM, 1, 0), refuse,
			load(argumentAt + 16), ifEqual(0, 1, 0), ifEqual(unix.IPPROTO_TCP, 0, 1), allow, refuse,
		}
	}
	socket := []unix.SockFilter{load(argumentAt)}
	for _, family := range families {
		socket = append(socket, ifEqual(family, 0, 1), allow)
	}
	socket = append(socket, ifEqual(unix.AF_INET, 2, 0), ifEqual(unix.AF_INET6, 1, 0), refuse)
	socket = append(socket, internet...)
	code = append(code, ifEqual(unix.SYS_SOCKET, 0, uint8(len(socket))))
	code = append(append(code, socket...), allow)
	program := unix.SockFprog{Len: uint16(len(code)), Filter: &code[0]}
	thread, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&program)))
	runtime.KeepAlive(code)
	switch {
	case errno != 0:
		return fmt.Errorf("system calls cannot be filtered: %w", errno)
	case thread != 0:
		return errors.New("system calls cannot be filtered for all threads")
	}
	return nil
}

// Architecture returns the number that the kernel's filters of system calls have for this architecture.
func Architecture() (uint32, error) {
	switch runtime.GOARCH {
	case "amd64":
		return unix.AUDIT_ARCH_X86_64, nil
	case "arm64":
		return unix.AUDIT_ARCH_AARCH64, nil
	}
	return 0, fmt.Errorf("system calls cannot be filtered on %s", runtime.GOARCH)
}
