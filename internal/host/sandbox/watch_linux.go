package sandbox

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/weir-mcp/weir/internal/host/confine"
)

// watchedCall is a system call that names a file. Its arguments are counted from 0.
type watchedCall struct {
	number    uint32
	dir, path int // dir is -1 for the working directory
	how       func(n *notice) use
}

func always(u use) func(*notice) use { return func(*notice) use { return u } }

// opened returns the use that the flags in an argument ask for.
func opened(argument int) func(*notice) use {
	return func(n *notice) use { return useOf(n.Args[argument]) }
}

func useOf(flags uint64) use {
	switch {
	case flags&unix.O_PATH != 0:
		return nothing
	case flags&unix.O_CREAT != 0:
		return writeOrCreate
	case flags&(unix.O_WRONLY|unix.O_RDWR|unix.O_TRUNC) != 0:
		return writes
	}
	return reads
}

// writeOrCreate is writes if the file is there before the call, and else creates.
const writeOrCreate use = -1

// openedHow is opened for openat2, whose flags are in memory.
func openedHow(n *notice) use {
	raw := n.memory(n.Args[2], 8)
	if len(raw) < 8 {
		return reads
	}
	return useOf(binary.NativeEndian.Uint64(raw))
}

// watchedCalls returns the calls that are watched, except connect.
func watchedCalls() []watchedCall {
	calls := []watchedCall{
		{unix.SYS_OPENAT, 0, 1, opened(2)}, {unix.SYS_OPENAT2, 0, 1, openedHow}, {unix.SYS_EXECVE, -1, 0, always(reads)}, {unix.SYS_EXECVEAT, 0, 1, always(reads)},
		{unix.SYS_MKDIRAT, 0, 1, always(creates)}, {unix.SYS_UNLINKAT, 0, 1, always(creates)}, {unix.SYS_SYMLINKAT, 1, 2, always(creates)}, {unix.SYS_LINKAT, 2, 3, always(creates)},
		{unix.SYS_RENAMEAT2, 0, 1, always(creates)}, {unix.SYS_RENAMEAT2, 2, 3, always(creates)}, {unix.SYS_TRUNCATE, -1, 0, always(writes)},
	}
	switch runtime.GOARCH { // the calls of a system library that have no name on the other one
	case "amd64":
		calls = append(calls, []watchedCall{
			{2, -1, 0, opened(1)}, {85, -1, 0, always(creates)}, {83, -1, 0, always(creates)}, {87, -1, 0, always(creates)}, {84, -1, 0, always(creates)}, // open, creat, mkdir, unlink, rmdir
			{82, -1, 0, always(creates)}, {82, -1, 1, always(creates)}, {264, 0, 1, always(creates)}, {264, 2, 3, always(creates)}, // rename, renameat
			{88, -1, 1, always(creates)}, {86, -1, 1, always(creates)}, // symlink, link
		}...)
	case "arm64":
		calls = append(calls, watchedCall{38, 0, 1, always(creates)}, watchedCall{38, 2, 3, always(creates)}) // renameat
	}
	return calls
}

// watched becomes a program, and has the kernel tell a watcher at a socket each call of it that names a file or an address.
// The calls go on as if there was none. watched returns only if it fails.
func watched(socket, path string, command []string) error {
	runtime.LockOSThread() // the filter is of one thread, which becomes the program
	arch, err := confine.Architecture()
	if err != nil {
		return err
	}
	to, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(to)
	if err := unix.Connect(to, &unix.SockaddrUnix{Name: socket}); err != nil {
		return err
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("no_new_privs: %w", err)
	}
	const numberAt, archAt = 0, 4 // in struct seccomp_data
	load := func(at uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: at}
	}
	answer := func(k uint32) unix.SockFilter { return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: k} }
	ifEqual := func(k uint32, yes, no uint8) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jt: yes, Jf: no, K: k}
	}
	code := []unix.SockFilter{load(archAt), ifEqual(arch, 1, 0), answer(unix.SECCOMP_RET_ALLOW), load(numberAt)}
	numbers := []uint32{unix.SYS_CONNECT}
	for _, call := range watchedCalls() {
		numbers = append(numbers, call.number)
	}
	slices.Sort(numbers)
	for _, number := range slices.Compact(numbers) {
		code = append(code, ifEqual(number, 0, 1), answer(unix.SECCOMP_RET_USER_NOTIF))
	}
	code = append(code, answer(unix.SECCOMP_RET_ALLOW))
	program := unix.SockFprog{Len: uint16(len(code)), Filter: &code[0]}
	listener, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_NEW_LISTENER, uintptr(unsafe.Pointer(&program)))
	runtime.KeepAlive(code)
	if errno != 0 {
		return fmt.Errorf("the kernel tells of no system calls: %w", errno)
	}
	err = unix.Sendmsg(to, []byte{0}, unix.UnixRights(int(listener)), nil, 0)
	_ = unix.Close(int(listener))
	if err != nil {
		return err
	}
	return unix.Exec(path, command, unix.Environ())
}

// notice is the kernel's struct seccomp_notif.
type notice struct {
	ID     uint64
	PID    uint32
	Flags  uint32
	Number int32
	Arch   uint32
	IP     uint64
	Args   [6]uint64
}

// goOn is the kernel's struct seccomp_notif_resp.
type goOn struct {
	ID    uint64
	Value int64
	Error int32
	Flags uint32
}

// A watcher receives the calls of programs that are started with Walls.Watch.
type watcher struct {
	listener *net.UnixListener
	touched  func(touch)
	stop     *os.File // closed, it ends the watching
	stopped  *os.File
	tasks    sync.WaitGroup
}

// watch listens at a socket, whose path is for Walls.Watch. touched is called by one goroutine for each program. The caller
// closes the watcher after the programs have ended: calls of a program without a watcher fail.
func watch(socket string, touched func(touch)) (*watcher, error) {
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		return nil, err
	}
	w := &watcher{listener: l, touched: touched}
	if w.stopped, w.stop, err = os.Pipe(); err != nil {
		l.Close()
		return nil, err
	}
	w.tasks.Go(func() {
		for {
			conn, err := l.AcceptUnix()
			if err != nil {
				return // closed
			}
			w.tasks.Go(func() { w.follow(conn) })
		}
	})
	return w, nil
}

// close ends the watching.
func (w *watcher) close() {
	_ = w.listener.Close()
	_ = w.stop.Close()
	w.tasks.Wait()
	_ = w.stopped.Close()
}

// follow receives the calls of one program, until it has ended.
func (w *watcher) follow(conn *net.UnixConn) {
	defer conn.Close()
	rights := make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := conn.ReadMsgUnix(make([]byte, 1), rights)
	if err != nil {
		return
	}
	messages, err := unix.ParseSocketControlMessage(rights[:n])
	if err != nil || len(messages) != 1 {
		return
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 1 {
		return
	}
	defer unix.Close(fds[0])
	calls := watchedCalls()
	ready := []unix.PollFd{{Fd: int32(fds[0]), Events: unix.POLLIN}, {Fd: int32(w.stopped.Fd())}}
	for {
		if _, err := unix.Poll(ready, -1); errors.Is(err, unix.EINTR) {
			continue
		} else if err != nil || ready[1].Revents != 0 || ready[0].Revents&unix.POLLIN == 0 {
			return // the program has ended, or the watcher was closed
		}
		var call notice
		if _, _, err := unix.Syscall(unix.SYS_IOCTL, uintptr(fds[0]), unix.SECCOMP_IOCTL_NOTIF_RECV, uintptr(unsafe.Pointer(&call))); err != 0 {
			continue // the process has ended meanwhile
		}
		call.tell(calls, w.touched)
		answer := goOn{ID: call.ID, Flags: unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE}
		_, _, _ = unix.Syscall(unix.SYS_IOCTL, uintptr(fds[0]), unix.SECCOMP_IOCTL_NOTIF_SEND, uintptr(unsafe.Pointer(&answer)))
	}
}

// tell passes on what a call names.
func (n *notice) tell(calls []watchedCall, touched func(touch)) {
	if n.Number == unix.SYS_CONNECT {
		if at := n.address(); at.IsValid() {
			touched(touch{address: at})
		} else if path := n.socket(); path != "" {
			touched(touch{path: path, use: connects})
		}
		return
	}
	for _, call := range calls {
		if call.number != uint32(n.Number) {
			continue
		}
		dir := -1
		if call.dir >= 0 {
			dir = int(int32(n.Args[call.dir]))
		}
		how := call.how(n)
		if path := n.file(dir, n.Args[call.path]); path != "" && how != nothing {
			if how == writeOrCreate {
				if how = creates; exists(path) {
					how = writes
				}
			}
			touched(touch{path: path, use: how})
		}
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// file returns the absolute path of a file that a call names.
func (n *notice) file(dir int, at uint64) string {
	raw := n.memory(at, unix.PathMax)
	end := slices.Index(raw, 0)
	if end <= 0 {
		return ""
	}
	path := string(raw[:end])
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	base := "/proc/" + strconv.Itoa(int(n.PID))
	if dir < 0 { // AT_FDCWD
		base += "/cwd"
	} else {
		base += "/fd/" + strconv.Itoa(dir)
	}
	folder, err := os.Readlink(base)
	if err != nil || !filepath.IsAbs(folder) {
		return ""
	}
	return filepath.Join(folder, path)
}

// memory reads from the process, up to the end of what it has there.
func (n *notice) memory(at uint64, length int) (read []byte) {
	for length > 0 {
		part := min(length, 4096-int(at%4096)) // a page that is not there would take the others with it
		buffer := make([]byte, part)
		got, err := unix.ProcessVMReadv(int(n.PID), []unix.Iovec{{Base: &buffer[0], Len: uint64(part)}}, []unix.RemoteIovec{{Base: uintptr(at), Len: part}}, 0)
		if err != nil || got == 0 {
			return read
		}
		read = append(read, buffer[:got]...)
		if slices.Contains(buffer[:got], 0) && length == unix.PathMax {
			return read
		}
		at, length = at+uint64(got), length-got
	}
	return read
}

// address returns the address that connect names.
func (n *notice) address() netip.AddrPort {
	raw := n.memory(n.Args[1], int(min(n.Args[2], 28)))
	if len(raw) < 8 {
		return netip.AddrPort{}
	}
	port := binary.BigEndian.Uint16(raw[2:])
	switch family := binary.NativeEndian.Uint16(raw); {
	case family == unix.AF_INET:
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte(raw[4:8])), port)
	case family == unix.AF_INET6 && len(raw) >= 24:
		return netip.AddrPortFrom(netip.AddrFrom16([16]byte(raw[8:24])).Unmap(), port)
	}
	return netip.AddrPort{}
}

// socket returns the path of a socket of the file system that connect names.
func (n *notice) socket() string {
	raw := n.memory(n.Args[1], int(min(n.Args[2], 110)))
	if len(raw) < 3 || binary.NativeEndian.Uint16(raw) != unix.AF_UNIX || raw[2] == 0 {
		return ""
	}
	path := raw[2:]
	if end := slices.Index(path, 0); end >= 0 {
		path = path[:end]
	}
	if !filepath.IsAbs(string(path)) {
		return ""
	}
	return filepath.Clean(string(path))
}
