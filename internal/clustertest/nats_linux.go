package clustertest

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"golang.org/x/sys/unix"
)

// asNATS is the argument that makes a test binary a NATS server. The address and the folder follow.
const asNATS = "clustertest-nats"

// Serve makes this process a NATS server if Start has started it as one, and does not return then. Call it
// first in TestMain.
func Serve() {
	if len(os.Args) != 4 || os.Args[1] != asNATS {
		return
	}
	signal.Ignore(syscall.SIGXFSZ) // a write past a limit of Limit fails and does not end the process
	fail := func(err error) {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	address, dir := os.Args[2], os.Args[3]
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		fail(err)
	}
	number, err := strconv.Atoi(port)
	if err != nil {
		fail(err)
	}
	s, err := natsserver.NewServer(&natsserver.Options{Host: host, Port: number, JetStream: true, StoreDir: dir, NoSigs: true})
	if err != nil {
		fail(err)
	}
	s.Start()
	if !s.ReadyForConnections(time.Minute) {
		fail(fmt.Errorf("the NATS server does not listen at %s", address))
	}
	fmt.Println("ready")
	select {}
}

// NATS is the NATS server of a cluster.
type NATS struct {
	process
	address, dir string
}

// Start starts the server again after Kill. It has what it had stored.
func (s *NATS) Start() error {
	cmd := exec.Command(os.Args[0], asNATS, s.address, s.dir)
	cmd.Stderr = &s.log
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := s.run(cmd); err != nil {
		return err
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		return fmt.Errorf("the NATS server has not started: %w: %q\n%s", err, line, s.log.String())
	}
	return nil
}

// Limit bounds the size of the server's files: writes past it fail as on a full disk. 0 takes the limit away.
func (s *NATS) Limit(bytes uint64) error {
	if bytes == 0 {
		bytes = unix.RLIM_INFINITY
	}
	limit := &unix.Rlimit{Cur: bytes, Max: unix.RLIM_INFINITY}
	return unix.Prlimit(s.PID(), unix.RLIMIT_FSIZE, limit, nil)
}
