package link

import (
	"net"
	"syscall"
	"testing"
)

// TestListen: the connections that a node takes have the times of those that it dials, so that neither side waits for
// minutes for a machine that has lost its power.
func TestListen(t *testing.T) {
	l, err := Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	near, err := Dialer().DialContext(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer near.Close()
	far, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer far.Close()
	for _, option := range []int{syscall.TCP_KEEPIDLE, syscall.TCP_KEEPINTVL, syscall.TCP_KEEPCNT, tcpUserTimeout} {
		if dialled, taken := tcpOption(t, near, option), tcpOption(t, far, option); dialled != taken || taken == 0 {
			t.Errorf("TCP option %d: %d where the node dials, %d where it listens", option, dialled, taken)
		}
	}
}

func tcpOption(t *testing.T, c net.Conn, option int) (value int) {
	t.Helper()
	raw, err := c.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	if err := raw.Control(func(fd uintptr) {
		if value, err = syscall.GetsockoptInt(int(fd), syscall.IPPROTO_TCP, option); err != nil {
			t.Error(err)
		}
	}); err != nil {
		t.Fatal(err)
	}
	return value
}
