package cli

import (
	"math/rand/v2"
	"net"
	"strconv"
)

// Range of ports for ${weir:port}. Systems assign ephemeral ports from above this range, also to
// outgoing connections. An ephemeral port could be taken again before the server listens on it.
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
