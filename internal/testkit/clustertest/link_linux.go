package clustertest

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"
)

// State is the treatment of bytes on a link.
type State int

// The states.
const (
	Open     State = iota
	Cut            // connections break, and new ones too
	Stalled        // bytes stay where they are until the link is open again
	HalfOpen       // bytes of the caller arrive, and nothing comes back; connections break when the state changes
)

// String returns the name of a state.
func (s State) String() string { return [...]string{"open", "cut", "stalled", "half-open"}[s] }

// Link is the connections that one node makes to another one, or to the NATS server.
type Link struct {
	mu      sync.Mutex // guards below
	state   State
	changed chan struct{} // closed when the state changes
	conns   map[*pair]struct{}
}

// pair is a connection through a link.
type pair struct {
	near, far *net.TCPConn
	lossy     bool // bytes were lost on it; guarded by Link.mu
}

func newLink() *Link { return &Link{changed: make(chan struct{}), conns: map[*pair]struct{}{}} }

// Set changes the state.
func (l *Link) Set(s State) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.state == s {
		return
	}
	l.state = s
	close(l.changed)
	l.changed = make(chan struct{})
	for p := range l.conns {
		if s == Cut || p.lossy {
			p.reset()
		}
	}
}

// reset ends a connection as a machine does that knows nothing of it.
func (p *pair) reset() {
	_ = p.near.SetLinger(0)
	_ = p.far.SetLinger(0)
	_ = p.near.Close()
	_ = p.far.Close()
}

// pass waits until bytes may pass on a connection. lost says that they do not arrive.
func (l *Link) pass(p *pair, back bool) (lost bool) {
	for {
		l.mu.Lock()
		state, changed := l.state, l.changed
		if state == HalfOpen && back {
			p.lossy = true
		}
		l.mu.Unlock()
		switch {
		case state == HalfOpen && back:
			return true
		case state != Stalled:
			return false
		}
		<-changed
	}
}

// awaitChange waits until the link has another state.
func (l *Link) awaitChange() {
	l.mu.Lock()
	changed := l.changed
	state := l.state
	l.mu.Unlock()
	if state == HalfOpen {
		<-changed
	}
}

// carry copies between two connections until one of them ends.
func (l *Link) carry(near, far *net.TCPConn) {
	p := &pair{near: near, far: far}
	l.mu.Lock()
	cut := l.state == Cut
	l.conns[p] = struct{}{}
	l.mu.Unlock()
	if cut {
		p.reset()
	}
	var both sync.WaitGroup
	both.Go(func() { l.copy(p, far, near, false) })
	both.Go(func() { l.copy(p, near, far, true) })
	both.Wait()
	l.mu.Lock()
	delete(l.conns, p)
	l.mu.Unlock()
	_ = near.Close()
	_ = far.Close()
}

func (l *Link) copy(p *pair, to, from *net.TCPConn, back bool) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 && !l.pass(p, back) {
			if _, failed := to.Write(buf[:n]); failed != nil {
				err = failed
			}
		}
		if err != nil {
			if !l.pass(p, back) { // an end is news as well
				_ = to.CloseWrite()
			} else {
				l.awaitChange()
			}
			_ = from.CloseRead()
			return
		}
	}
}

// proxy listens at one address and connects to another one.
type proxy struct {
	listener *net.TCPListener
	to       string
	link     func(near *net.TCPConn) *Link // of an accepted connection; nil: the caller is not known
	done     sync.WaitGroup

	mu    sync.Mutex // guards below
	conns map[*net.TCPConn]struct{}
	over  bool
}

func newProxy(at, to string, link func(*net.TCPConn) *Link) (*proxy, error) {
	l, err := net.Listen("tcp", at)
	if err != nil {
		return nil, err
	}
	p := &proxy{listener: l.(*net.TCPListener), to: to, link: link, conns: map[*net.TCPConn]struct{}{}}
	p.done.Go(p.accept)
	return p, nil
}

func (p *proxy) accept() {
	for {
		near, err := p.listener.AcceptTCP()
		if err != nil {
			return
		}
		p.done.Go(func() {
			defer near.Close()
			l := p.link(near)
			if l == nil {
				return
			}
			conn, err := net.DialTimeout("tcp", p.to, 5*time.Second)
			if err != nil {
				_ = near.SetLinger(0)
				return
			}
			far := conn.(*net.TCPConn)
			if p.keep(near, far) {
				l.carry(near, far)
			}
			p.drop(near, far)
		})
	}
}

// keep remembers connections, so that close ends them. It returns false after close.
func (p *proxy) keep(conns ...*net.TCPConn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		p.conns[c] = struct{}{}
	}
	return !p.over
}

func (p *proxy) drop(conns ...*net.TCPConn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		delete(p.conns, c)
		_ = c.Close()
	}
}

// close ends the listener and all connections. The links must not be stalled.
func (p *proxy) close() {
	_ = p.listener.Close()
	p.mu.Lock()
	p.over = true
	for c := range p.conns {
		_ = c.Close()
	}
	p.mu.Unlock()
	p.done.Wait()
}

// owns reports whether a process has the socket with a number.
func owns(pid int, inode string) bool {
	folder := fmt.Sprintf("/proc/%d/fd", pid)
	entries, _ := os.ReadDir(folder)
	for _, e := range entries {
		if to, err := os.Readlink(filepath.Join(folder, e.Name())); err == nil && to == "socket:["+inode+"]" {
			return true
		}
	}
	return false
}

// inodeOf returns the number of a socket by its two addresses, "" if there is none. The local one is not enough: the
// system gives a port to connections to different addresses.
func inodeOf(local, remote net.Addr) string {
	if inode := askInode(local, remote); inode != "" {
		return inode
	}
	return readInode(local, remote)
}

// readInode is inodeOf by the table in /proc.
func readInode(local, remote net.Addr) string {
	wantLocal, wantRemote := row(local), row(remote)
	if wantLocal == nil || wantRemote == nil {
		return ""
	}
	table, err := os.ReadFile("/proc/net/tcp")
	if err != nil {
		return ""
	}
	for line := range bytes.Lines(table) {
		if f := bytes.Fields(line); len(f) > 9 && bytes.Equal(f[1], wantLocal) && bytes.Equal(f[2], wantRemote) {
			if _, err := strconv.Atoi(string(f[9])); err == nil {
				return string(f[9])
			}
		}
	}
	return ""
}

// row returns an address as /proc/net/tcp has it, nil for one that is not of IPv4.
func row(address net.Addr) []byte {
	tcp, ok := address.(*net.TCPAddr)
	if !ok || tcp.IP.To4() == nil {
		return nil
	}
	return fmt.Appendf(nil, "%08X:%04X", binary.NativeEndian.Uint32(tcp.IP.To4()), tcp.Port)
}
