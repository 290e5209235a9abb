package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/gateway"
	"github.com/weir-mcp/weir/internal/testkit/leak"
	"github.com/weir-mcp/weir/internal/testkit/proctest"
)

// The programs under test, built once.
var weirBin, fakeBin string

func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == hostileArgument {
		hostileServer()
	}
	err := proctest.Guard()
	if err == nil {
		err = moreAtOnce()
	}
	dir := ""
	if err == nil {
		dir, err = os.MkdirTemp("", "weir-test-")
	}
	if err == nil {
		weirBin, fakeBin = filepath.Join(dir, "weir"), filepath.Join(dir, "fakemcp")
		err = build(weirBin, "../../cmd/weir")
	}
	if err == nil {
		err = build(fakeBin, "../testkit/fakemcp/cmd/fakemcp")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	leak.Main(cleaner{m, dir})
}

// moreAtOnce lets more tests run at once than there are processors, unless -parallel says how
// many: most of them wait for processes.
func moreAtOnce() error {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if given {
		return nil
	}
	return flag.Set("test.parallel", strconv.Itoa(3*runtime.GOMAXPROCS(0)))
}

// cleaner removes what TestMain built when the tests are done.
type cleaner struct {
	m   *testing.M
	dir string
}

func (c cleaner) Run() int {
	defer os.RemoveAll(c.dir)
	return c.m.Run()
}

func build(to, pkg string) error {
	out, err := exec.Command("go", "build", "-o", to, pkg).CombinedOutput()
	if err != nil {
		return fmt.Errorf("building %s: %w\n%s", pkg, err, out)
	}
	return nil
}

// limit bounds every process of a test.
const limit = 60 * time.Second

// environment is that of the programs under test: nothing of the machine's own
// settings for weir, and folders of the tests' own for configuration and state.
func environment(extra ...string) []string {
	var env []string
	for _, pair := range os.Environ() {
		if !strings.HasPrefix(pair, "WEIR_") {
			env = append(env, pair)
		}
	}
	dir := filepath.Dir(weirBin)
	env = append(env, "XDG_STATE_HOME="+filepath.Join(dir, "state"), "XDG_CONFIG_HOME="+filepath.Join(dir, "config"), "XDG_DATA_HOME="+filepath.Join(dir, "data"))
	return append(env, extra...)
}

// A finished command.
type finished struct {
	stdout, stderr string
	code           int
	busy           time.Duration // of processors
}

// endOf returns how a command has ended.
func endOf(cmd *exec.Cmd, stdout, stderr string) finished {
	p := cmd.ProcessState
	return finished{stdout, stderr, p.ExitCode(), p.UserTime() + p.SystemTime()}
}

// weir runs a command to its end. Extra environment goes before the arguments,
// as NAME=VALUE; "@DIR" is the folder to run in.
func weir(t *testing.T, args ...string) finished {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	var env []string
	dir := t.TempDir()
	for len(args) > 0 && (strings.HasPrefix(args[0], "@") || strings.Contains(args[0], "=")) {
		if folder, ok := strings.CutPrefix(args[0], "@"); ok {
			dir = folder
		} else {
			env = append(env, args[0])
		}
		args = args[1:]
	}
	cmd := exec.CommandContext(ctx, weirBin, args...)
	cmd.Dir, cmd.Env = dir, environment(env...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("weir %q: %v", args, err)
	}
	return endOf(cmd, stdout.String(), stderr.String())
}

// want checks how a command ended and that its output holds some texts.
func (f finished) want(t *testing.T, code int, texts ...string) finished {
	t.Helper()
	if f.code != code {
		t.Errorf("exit code %d, want %d\nstdout: %s\nstderr: %s", f.code, code, f.stdout, f.stderr)
	}
	for _, text := range texts {
		if !strings.Contains(f.stdout+f.stderr, text) {
			t.Errorf("no %q in the output\nstdout: %s\nstderr: %s", text, f.stdout, f.stderr)
		}
	}
	return f
}

// decode reads a command's JSON.
func decode[T any](t *testing.T, text string) T {
	t.Helper()
	var v T
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%v in %q", err, text)
	}
	return v
}

// A server is a running weir serve.
type server struct {
	t      *testing.T
	cmd    *exec.Cmd
	url    string // of /mcp
	base   string
	config string
	token  string // to show where one is wanted
	stderr *lockedBuffer
	ended  chan struct{}
}

// lockedBuffer takes what a process writes while a test reads it.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

var urlLine = regexp.MustCompile(`http://127\.0\.0\.1:\d+/mcp`)

// sleeps waits until a call of the fake server's tool sleep runs, as the file of its events says.
func sleeps(t *testing.T, events string) {
	t.Helper()
	for end := time.Now().Add(limit); ; time.Sleep(20 * time.Millisecond) {
		text, _ := os.ReadFile(events)
		if strings.Contains(string(text), "sleeping ") {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("no call runs in %v: %s", limit, text)
		}
	}
}

// writeConfig writes a configuration into a folder of its own. %FAKE% stands for
// the fake server.
func writeConfig(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(strings.ReplaceAll(text, "%FAKE%", fakeBin)), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// serve starts a gateway with a configuration on a free port and waits until it
// says its URL.
func serve(t *testing.T, config string, args ...string) *server {
	t.Helper()
	path := writeConfig(t, "weir.yaml", config)
	return start(t, path, append([]string{"serve", "--config", path, "--listen", "127.0.0.1:0"}, args...)...)
}

func start(t *testing.T, path string, args ...string) *server {
	t.Helper()
	return startWith(t, nil, path, args...)
}

// startWith is start with more variables in the environment.
func startWith(t *testing.T, env []string, path string, args ...string) *server {
	t.Helper()
	s := &server{t: t, config: path, cmd: exec.Command(weirBin, args...), stderr: &lockedBuffer{}, ended: make(chan struct{})}
	s.cmd.Env, s.cmd.Stderr = environment(env...), s.stderr
	if filepath.IsAbs(path) {
		s.cmd.Dir = filepath.Dir(path)
	}
	stdout, err := s.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	urls := make(chan string, 1)
	go func() {
		defer close(s.ended)
		lines := bufio.NewScanner(stdout)
		for lines.Scan() {
			if found := urlLine.FindString(lines.Text()); found != "" {
				select {
				case urls <- found:
				default:
				}
			}
		}
		_ = s.cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = s.cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-s.ended:
		case <-time.After(30 * time.Second):
			t.Errorf("weir did not end 10 s after SIGTERM")
			_ = s.cmd.Process.Kill()
			<-s.ended
		}
		if t.Failed() {
			t.Logf("log of weir:\n%s", s.stderr)
		}
	})
	select {
	case s.url = <-urls:
		s.base = strings.TrimSuffix(s.url, "/mcp")
	case <-s.ended:
		t.Fatalf("weir ended before it was ready: %s\n%s", s.cmd.ProcessState, s.stderr)
	case <-time.After(limit):
		t.Fatalf("weir printed no URL in %v\n%s", limit, s.stderr)
	}
	return s
}

// end sends a signal and returns how long the process took to end, and its exit
// code.
func (s *server) end(sig syscall.Signal) (time.Duration, int) {
	s.t.Helper()
	began := time.Now()
	if err := s.cmd.Process.Signal(sig); err != nil {
		s.t.Fatal(err)
	}
	select {
	case <-s.ended:
	case <-time.After(30 * time.Second):
		s.t.Fatal("weir did not end")
	}
	return time.Since(began), s.cmd.ProcessState.ExitCode()
}

// health asks /healthz.
func (s *server) health() gateway.Health {
	s.t.Helper()
	var header []string
	if s.token != "" {
		header = []string{"Authorization", "Bearer " + s.token}
	}
	_, body := get(s.t, s.base+"/healthz", header...)
	return decode[gateway.Health](s.t, body)
}

// await waits until a condition on the health holds.
func (s *server) await(what string, cond func(gateway.Health) bool) gateway.Health {
	s.t.Helper()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		h := s.health()
		if cond(h) {
			return h
		}
		if time.Now().After(end) {
			s.t.Fatalf("not in 20 s: %s; it is %+v\n%s", what, h, s.stderr)
		}
	}
}

// tool returns the id of a tool by its namespace and name.
func (s *server) tool(name string) string {
	s.t.Helper()
	var cards []card
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		cards = decode[[]card](s.t, weir(s.t, "ls", "--tools", "--json", "--url", s.url).want(s.t, exitOK).stdout)
		for _, c := range cards {
			if strings.HasPrefix(c.ID, name+"#") {
				return c.ID
			}
		}
	}
	s.t.Fatalf("there is no tool %s among %v", name, cards)
	return ""
}

// httpClient is an HTTP client of one test, whose connections end with it.
func httpClient(t *testing.T) *http.Client {
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: limit}
}

func get(t *testing.T, url string, header ...string) (int, string) {
	t.Helper()
	return exchange(t, http.MethodGet, url, "", header...)
}

// exchange makes a request with pairs of header names and values.
func exchange(t *testing.T, method, url, body string, header ...string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		if header[i] == "Host" {
			req.Host = header[i+1]
			continue
		}
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := httpClient(t).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(data)
}

// modernCall is the body of a tools/call in the modern era.
func modernCall(id int, tool string, args any) []byte {
	body, err := json.Marshal(map[string]any{
		"jsonrpc": "2.0", "id": id, "method": "tools/call",
		"params": map[string]any{
			"name": tool, "arguments": args,
			"_meta": map[string]any{
				"io.modelcontextprotocol/protocolVersion":    "2026-07-28",
				"io.modelcontextprotocol/clientInfo":         map[string]string{"name": "test", "version": "1"},
				"io.modelcontextprotocol/clientCapabilities": map[string]any{},
			},
		},
	})
	if err != nil {
		panic(err)
	}
	return body
}

// post makes a modern tools/call and returns the status and the body.
func post(ctx context.Context, c *http.Client, url, tool string, body []byte) (int, string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	req.Header.Set("Mcp-Protocol-Version", "2026-07-28")
	req.Header.Set("Mcp-Method", "tools/call")
	req.Header.Set("Mcp-Name", tool)
	resp, err := c.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(data), err
}

// head returns the header of a HEAD response.
func head(t *testing.T, url string) http.Header {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodHead, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := httpClient(t).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	return resp.Header
}
