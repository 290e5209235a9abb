package hop

import (
	"net"
	"syscall"
)

// Probe looks at an idle connection. One goroutine uses it at a time.
type Probe struct {
	raw   syscall.RawConn
	look  func(fd uintptr) bool // sets quiet
	quiet bool                  // the server has neither closed it nor sent anything
	one   [1]byte
}

// NewProbe returns a Probe of the socket below a connection, nil if there is none.
func NewProbe(nc net.Conn) *Probe {
	sc, ok := Under(nc).(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return nil
	}
	p := &Probe{raw: raw}
	p.look = p.lookAt
	return p
}

// Under returns the connection below a layer such as TLS, or nc itself.
func Under(nc net.Conn) net.Conn {
	if over, ok := nc.(interface{ NetConn() net.Conn }); ok { // a *tls.Conn
		return over.NetConn()
	}
	return nc
}

// Quiet reports whether the other side has neither closed the connection nor sent anything that was not read. After
// false, the connection is useless.
func (p *Probe) Quiet() bool {
	err := p.raw.Read(p.look)
	return err == nil && p.quiet
}
