//go:build unix

package main

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weir-mcp/weir/smcp"
	"github.com/weir-mcp/weir/smcp/hub"
)

// asServer is the variable that makes this program a server of some kind instead of a test.
const asServer = "WEIR_BENCH_SERVER"

func TestMain(m *testing.M) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var err error
	switch os.Getenv(asServer) {
	case "":
		os.Exit(m.Run())
	case "socketio":
		err = serve(ctx, os.Stdout)
	case "hub":
		err = serveHub(ctx)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func serveHub(ctx context.Context) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	h := hub.New(hub.Options{})
	fmt.Printf("http://%s\n", listener.Addr())
	return serveOn(ctx, listener, h, h.Shutdown)
}

// BenchmarkIdle connects 2,000 clients that then say nothing, and reports what each costs the server's process in private
// memory: at package socketio alone, and in the namespace of a hub. It fails where that is more than maxIdle.
func BenchmarkIdle(b *testing.B) {
	for kind, namespace := range map[string]string{"socketio": "", "hub": smcp.Namespace} {
		b.Run(kind, func(b *testing.B) {
			if runtime.GOOS != "linux" {
				b.Skip("private memory is read from /proc")
			}
			raiseFileLimit()
			command := exec.CommandContext(b.Context(), os.Args[0])
			command.Env = append(os.Environ(), asServer+"="+kind)
			command.Stderr = os.Stderr
			stdout, err := command.StdoutPipe()
			if err != nil {
				b.Fatal(err)
			}
			if err := command.Start(); err != nil {
				b.Fatal(err)
			}
			s := &server{command: command}
			defer s.stop()
			line, err := bufio.NewReader(stdout).ReadString('\n')
			if err != nil {
				b.Fatal(err)
			}
			s.address = strings.TrimPrefix(strings.TrimSpace(line), "http://")
			var each float64
			for range b.N {
				if each, err = measureMemory(b.Context(), s, namespace, 2000); err != nil {
					b.Fatal(err)
				}
				time.Sleep(time.Second) // for the connections to be gone
			}
			b.ReportMetric(each, "B/connection")
			if each > maxIdle {
				b.Errorf("an idle connection costs %.0f bytes, the bound is %d", each, maxIdle)
			}
		})
	}
}
