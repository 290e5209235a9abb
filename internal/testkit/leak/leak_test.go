package leak

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

func TestMain(m *testing.M) { Main(m) }

type code int

func (c code) Run() int { return int(c) }

func TestRunPassesTheTestsOwnCodeOn(t *testing.T) {
	var out bytes.Buffer
	if got := run(code(2), &out, 0); got != 2 || out.Len() != 0 {
		t.Errorf("failed tests: code %d, output %q, want 2 and nothing", got, &out)
	}
}

// park is the function whose name must be in the report, once it has begun.
func park(begun chan<- struct{}, release <-chan struct{}, ended chan<- struct{}) {
	close(begun)
	<-release
	close(ended)
}

func TestRunReportsAGoroutineThatStays(t *testing.T) {
	begun, release, ended := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go park(begun, release, ended)
	<-begun
	var out bytes.Buffer
	if got := run(code(0), &out, 20*time.Millisecond); got != 1 {
		t.Errorf("code = %d, want 1", got)
	}
	for _, want := range []string{"leak.park(", "created by github.com/weir-mcp/weir/internal/testkit/leak.TestRunReports", "owner that waits"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("output does not contain %q:\n%s", want, &out)
		}
	}
	close(release)
	<-ended
}

func TestWaitGivesGoroutinesTimeToEnd(t *testing.T) {
	begun, release, ended := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go park(begun, release, ended)
	<-begun
	timer := time.AfterFunc(30*time.Millisecond, func() { close(release) })
	defer timer.Stop()
	for _, g := range Wait(patience) {
		if strings.Contains(g.Stack, "leak.park") {
			t.Errorf("still there: %s", g.Stack)
		}
	}
}

func TestWaitClosesIdleConnections(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	resp, err := http.Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	defer server.Close()
	for _, g := range Wait(patience / 10) {
		if strings.Contains(g.Stack, "persistConn") {
			t.Errorf("an idle client connection counts as a leak: %s", g.Function)
		}
	}
}

func TestUnexpected(t *testing.T) {
	const self = "goroutine 1 [running]:\nmain.caller()\n\t/m.go:1 +0x1\n\n"
	tests := []struct {
		name, dump string
		want       []string
	}{
		{"only the caller", self, nil},
		{"signal loop", self + "goroutine 8 [syscall]:\nos/signal.signal_recv()\n\t/sig.go:1\nos/signal.loop()\n\t/s.go:2\ncreated by os/signal.Notify.func1.1 in goroutine 7\n\t/s.go:1 +0x1f", nil},
		{"test main beside the caller", self + "goroutine 1 [chan receive]:\ntesting.(*M).Run(0xc0)\n\t/t.go:1\nmain.main()\n\t/m.go:1", nil},
		{
			"started by a test", self + "goroutine 9 [select]:\ngithub.com/weir-mcp/weir/mcp.(*conn).read(0xc0)\n\t/c.go:1\ncreated by testing.(*M).Run in goroutine 7\n\t/t.go:1",
			[]string{"github.com/weir-mcp/weir/mcp.(*conn).read"},
		},
		{
			"foreign code too", self + "goroutine 9 [IO wait]:\ninternal/poll.runtime_pollWait(0x7, 0x72)\n\t/n.go:1\nnet/http.(*persistConn).readLoop(0xc0)\n\t/t.go:1\ncreated by net/http.(*Transport).dialConn in goroutine 7\n\t/t.go:1",
			[]string{"internal/poll.runtime_pollWait"},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var got []string
			for _, g := range unexpected(test.dump) {
				got = append(got, g.Function)
			}
			if strings.Join(got, ",") != strings.Join(test.want, ",") {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestPeak(t *testing.T) {
	var held []byte
	if grew := Peak(func() { held = make([]byte, 20<<20); clear(held) }); grew < 20<<20 || grew > 30<<20 {
		t.Errorf("%d bytes for 20 MB", grew)
	}
	if grew := Peak(func() { held = nil }); grew > 5<<20 {
		t.Errorf("%d bytes for nothing", grew)
	}
}
