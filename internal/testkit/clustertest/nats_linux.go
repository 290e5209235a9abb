package clustertest

import (
	"bufio"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"golang.org/x/sys/unix"
)

// asNATS is the argument that makes a test binary a NATS server. The address and the folder follow, and for one of
// several servers its name, its address for the others, and the addresses of all.
const asNATS = "clustertest-nats"

// Serve makes this process a NATS server if Start has started it as one, and does not return then. Call it
// first in TestMain.
func Serve() {
	if len(os.Args) < 4 || os.Args[1] != asNATS {
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
	o := &natsserver.Options{Host: host, Port: number, JetStream: true, StoreDir: dir, NoSigs: true}
	if err := cluster(o, os.Args[4:]); err != nil {
		fail(err)
	}
	s, err := natsserver.NewServer(o)
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

// cluster makes a server one of several, by its arguments after the folder.
func cluster(o *natsserver.Options, args []string) error {
	if len(args) < 3 {
		return nil
	}
	host, port, err := net.SplitHostPort(args[1])
	if err != nil {
		return err
	}
	o.ServerName = args[0]
	o.Cluster.Name, o.Cluster.Host, o.Cluster.NoAdvertise = "clustertest", host, true // clients stay on their links
	if o.Cluster.Port, err = strconv.Atoi(port); err != nil {
		return err
	}
	for _, address := range args[2:] {
		if address != args[1] {
			o.Routes = append(o.Routes, &url.URL{Scheme: "nats", Host: address})
		}
	}
	return nil
}

// NATS is a NATS server of a cluster.
type NATS struct {
	process
	address, dir string
	more         []string // the arguments of one of several
}

// Start starts the server again after Kill. It has its stored data.
func (s *NATS) Start() error {
	cmd := exec.Command(os.Args[0], append([]string{asNATS, s.address, s.dir}, s.more...)...)
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
