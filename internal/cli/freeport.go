package cli

import (
	"math/rand/v2"
	"net"
	"strconv"
)

// Ports for ${weir:port}. Systems give ports from above this range to whoever
// asks for any, and to outgoing connections: one of those could be taken again
// before the program it is meant for listens there.
const (
	firstPort = 20_000
	lastPort  = 32_000
	portTries = 100
)

// freePort returns a free port of the loopback interface.
func freePort() (int, error) {
	for range portTries {
		port := firstPort + rand.IntN(lastPort-firstPort)
		if l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port))); err == nil {
			return port, l.Close()
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}
