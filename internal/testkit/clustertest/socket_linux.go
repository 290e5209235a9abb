package clustertest

import (
	"encoding/binary"
	"net"
	"strconv"

	"golang.org/x/sys/unix"
)

// Sizes and places of a question for one socket, and of its answer (inet_diag_req_v2 and inet_diag_msg of the kernel).
const (
	diagByFamily = 20 // SOCK_DIAG_BY_FAMILY
	diagRequest  = 56
	diagAnswer   = 72
	diagInode    = 68
)

// askInode asks the kernel for the number of a socket by its two addresses, "" if it does not say. The table in /proc
// has all sockets of the machine and takes milliseconds to read, for each new connection.
func askInode(local, remote net.Addr) string {
	near, ok := local.(*net.TCPAddr)
	far, ok2 := remote.(*net.TCPAddr)
	if !ok || !ok2 || near.IP.To4() == nil || far.IP.To4() == nil {
		return ""
	}
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_INET_DIAG)
	if err != nil {
		return ""
	}
	defer unix.Close(fd)
	m := make([]byte, unix.SizeofNlMsghdr+diagRequest)
	binary.NativeEndian.PutUint32(m, uint32(len(m)))
	binary.NativeEndian.PutUint16(m[4:], diagByFamily)
	binary.NativeEndian.PutUint16(m[6:], unix.NLM_F_REQUEST)
	r := m[unix.SizeofNlMsghdr:]
	r[0], r[1] = unix.AF_INET, unix.IPPROTO_TCP
	binary.NativeEndian.PutUint32(r[4:], ^uint32(0)) // in any state
	binary.BigEndian.PutUint16(r[8:], uint16(near.Port))
	binary.BigEndian.PutUint16(r[10:], uint16(far.Port))
	copy(r[12:], near.IP.To4())
	copy(r[28:], far.IP.To4())
	binary.NativeEndian.PutUint64(r[48:], ^uint64(0)) // any cookie
	if err := unix.Sendto(fd, m, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return ""
	}
	timeout := unix.Timeval{Sec: 1}
	_ = unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &timeout)
	answer := make([]byte, 4<<10)
	n, _, err := unix.Recvfrom(fd, answer, 0)
	if err != nil || n < unix.SizeofNlMsghdr+diagAnswer || binary.NativeEndian.Uint16(answer[4:]) != diagByFamily {
		return ""
	}
	inode := binary.NativeEndian.Uint32(answer[unix.SizeofNlMsghdr+diagInode:])
	if inode == 0 {
		return ""
	}
	return strconv.FormatUint(uint64(inode), 10)
}
