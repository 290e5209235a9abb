package proctest

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

// Systems assign ports to connections, and to listeners that leave the choice to them, from above lastPort.
const (
	firstPort = 20_000
	lastPort  = 32_000
	tries     = 1000
)

// FreeAddresses returns n addresses of the loopback interface, HOST:PORT, for programs that listen there later or
// again. Nothing listens there now, and no connection of this machine takes one of the ports meanwhile, as it
// may take the port of a listener at port 0 that was closed.
func FreeAddresses(n int) (all []string, err error) {
	var held []net.Listener
	defer func() {
		for _, l := range held {
			_ = l.Close()
		}
	}()
	for range tries {
		if len(all) == n {
			return all, nil
		}
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(firstPort+rand.IntN(lastPort-firstPort))))
		if err == nil {
			held, all = append(held, l), append(all, l.Addr().String())
		}
	}
	return nil, fmt.Errorf("proctest: fewer than %d free ports in %d tries from %d to %d", n, tries, firstPort, lastPort)
}
