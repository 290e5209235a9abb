package clustertest_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"golang.org/x/sys/unix"

	"github.com/weir-mcp/weir/internal/testkit/clustertest"
)

// asLock is the argument that makes this binary an MCP server on its standard streams that locks a file for as long
// as it runs. The path of the file follows.
const asLock = "clustertest-lock"

// twice is what the server writes into the file if another process has the lock.
const twice = "two processes at a time"

// serveLock makes this process the server if it was started as one, and does not return then.
func serveLock() {
	if len(os.Args) != 3 || os.Args[1] != asLock {
		return
	}
	fail := func(err error) {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	f, err := os.OpenFile(os.Args[2], os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		fail(err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_, _ = fmt.Fprintln(f, twice)
		fail(err)
	}
	s := mcp.NewServer(&mcp.Implementation{Name: "lock", Version: "1"}, nil)
	mcp.AddTool(s, &mcp.Tool{Name: "who", Description: "Tells its processes."}, func(ctx context.Context, _ *mcp.CallToolRequest, a countArgs) (*mcp.CallToolResult, any, error) {
		sleep(ctx, time.Duration(a.Ms)*time.Millisecond)
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: fmt.Sprintf("node %d program %d", os.Getppid(), os.Getpid())}}}, nil, nil
	})
	if err := s.Run(context.Background(), &mcp.StdioTransport{}); err != nil {
		fail(err)
	}
	os.Exit(0)
}

// lockServer is a cluster with the server, whose scope is the cluster.
type lockServer struct {
	t    *testing.T
	c    *clustertest.Cluster
	file string
	call int
}

var whoAnswers = regexp.MustCompile(`node (\d+) program (\d+)`)

// who calls the server at a node until a process other than one answers, and returns the node that has it and the process.
func (l *lockServer) who(at *clustertest.Node, not string, within time.Duration) (holder *clustertest.Node, program string) {
	l.t.Helper()
	transport := &http.Transport{DisableKeepAlives: true}
	defer transport.CloseIdleConnections()
	last := ""
	for end := time.Now().Add(within); ; time.Sleep(50 * time.Millisecond) {
		s := &session{path: "/mcps/lock/mcp", client: &http.Client{Transport: transport}}
		ctx, cancel := context.WithTimeout(l.t.Context(), 30*time.Second)
		_, answer, id, err := s.post(ctx, at, hello)
		if err == nil && id != "" {
			s.id = id
			l.call++
			_, answer, _, err = s.post(ctx, at, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"who","arguments":{"id":"","ms":0}}}`, l.call))
		}
		cancel()
		if found := whoAnswers.FindStringSubmatch(answer); found != nil && found[2] != not {
			for _, n := range l.c.Nodes {
				if strconv.Itoa(n.PID()) == found[1] {
					return n, found[2]
				}
			}
		}
		last = fmt.Sprint(answer, err)
		if time.Now().After(end) {
			l.t.Fatalf("no node has the server after %v: %s", within, last)
		}
	}
}

// keepCalling calls the server in a session at a node until stop. A call that fails fails the test of make chaos: on a
// slow machine the program may start for longer than a call waits.
func (l *lockServer) keepCalling(at *clustertest.Node) (stop func()) {
	s := open(l.t, at, "/mcps/lock/mcp")
	ctx, cancel := context.WithCancel(l.t.Context())
	var done sync.WaitGroup
	done.Go(func() {
		calls := 0
		for ; ctx.Err() == nil; calls++ {
			status, answer, _, err := s.post(l.t.Context(), at, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"who","arguments":{"id":"","ms":20}}}`, calls+1))
			if !whoAnswers.MatchString(answer) {
				what := fmt.Sprintf("call %d at %s: %d %s %v", calls, at.Name, status, answer, err)
				if l.t.Log(what); *chaosTime > 0 {
					l.t.Error("a call was lost while the node of the server drained")
				}
			}
		}
		l.t.Logf("%d calls while the node of the server drained", calls)
	})
	return func() { cancel(); done.Wait() }
}

// once fails the test if two processes of the server ran at a time.
func (l *lockServer) once() {
	l.t.Helper()
	text, err := os.ReadFile(l.file)
	if err != nil || strings.Contains(string(text), twice) {
		l.t.Errorf("%s %v", text, err)
	}
}

// TestOneHolder: a server with scope: cluster runs once in a cluster, and agents at all nodes reach it. When its node
// drains, another one has it at once. When its node is killed or cut off, another one has it after 25 seconds, and never
// two at a time.
func TestOneHolder(t *testing.T) {
	l := &lockServer{t: t, file: filepath.Join(t.TempDir(), "lock")}
	l.c = clustertest.Start(t, clustertest.Options{Weir: weirBin, Config: fmt.Sprintf(
		"mode: gateway\nmcpServers: {lock: {command: %q, args: [%q, %q], scope: cluster, required: true}}", os.Args[0], asLock, l.file)})
	_, patience := lasts()
	holder, program := l.who(l.c.Nodes[0], "", 20*time.Second+patience())
	same := func() {
		t.Helper()
		for _, n := range l.c.Nodes {
			if at, one := l.who(n, "", 20*time.Second+patience()); at != holder || one != program {
				t.Errorf("at %s: the process %s of %s, not %s of %s", n.Name, one, at.Name, program, holder.Name)
			}
		}
		l.once()
	}
	other := func() *clustertest.Node {
		for _, n := range l.c.Nodes {
			if n != holder {
				return n
			}
		}
		return nil
	}
	// passes says which node has the server next, and how long that took.
	passes := func(what string, most time.Duration) {
		t.Helper()
		began := time.Now()
		holder, program = l.who(other(), program, most+patience())
		t.Logf("%s: %s has the server after %v", what, holder.Name, time.Since(began).Round(time.Millisecond))
		l.once()
	}
	same()
	ended := holder
	done := make(chan error, 1)
	calls := l.keepCalling(other())
	go func() { done <- ended.Terminate(endTime + patience()) }()
	passes("drain", 10*time.Second)
	sleep(t.Context(), 300*time.Millisecond) // calls go on
	if *chaosTime == 0 {                     // what follows takes half a minute for each part
		ended.Kill()
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	calls()
	if *chaosTime == 0 {
		return
	}
	if err := ended.Start(); err != nil {
		t.Fatal(err)
	}
	same()
	killed := holder
	killed.Kill()
	passes("kill -9", 25*time.Second)
	if err := killed.Start(); err != nil {
		t.Fatal(err)
	}
	same()
	cut := holder
	for _, n := range l.c.Nodes {
		if n != cut {
			l.c.Link(n, cut).Set(clustertest.Cut)
			l.c.Link(cut, n).Set(clustertest.Cut)
		}
	}
	cut.Store().Set(clustertest.Stalled)
	passes("partition", 30*time.Second)
	l.c.Heal()
	same()
}
