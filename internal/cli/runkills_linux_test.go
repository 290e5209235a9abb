package cli

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
)

var everyKill = flag.Bool("every-kill", false, "TestProgramsSurviveKills kills at each of 20 writes")

// counter is an MCP server that counts writes. At one of them it kills: the gateway or the worker of the program,
// before it counts or before it answers.
type counter struct {
	mu     sync.Mutex // guards below
	writes map[string]int
	kill   func(write int, counted bool) // nil kills nothing
}

func (c *counter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var m struct {
		ID     json.RawMessage
		Method string
		Params struct {
			Name      string
			Arguments struct {
				Round string
				N     int
			}
		}
	}
	raw, err := io.ReadAll(r.Body)
	if r.Method != http.MethodPost || err != nil || json.Unmarshal(raw, &m) != nil {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	result := `{}`
	switch m.Method {
	case "initialize":
		result = `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"counter","version":"1"}}`
	case "tools/list":
		result = `{"tools":[{"name":"add","description":"Add a number.","inputSchema":{"type":"object"}},{"name":"has","description":"Is it there?","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}]}`
	case "tools/call":
		result = c.call(m.Params.Name, fmt.Sprint(m.Params.Arguments.Round, " ", m.Params.Arguments.N), m.Params.Arguments.N)
	}
	if m.ID == nil {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
}

func (c *counter) call(name, key string, n int) string {
	c.mu.Lock()
	kill := c.kill
	c.mu.Unlock()
	if name == "add" {
		if kill != nil {
			kill(n, false)
		}
		c.mu.Lock()
		c.writes[key]++
		c.mu.Unlock()
		if kill != nil {
			kill(n, true)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return fmt.Sprintf(`{"content":[],"structuredContent":{"n":%d}}`, c.writes[key])
}

// killWorkers kills the workers of programs of a gateway.
func killWorkers(t *testing.T, gateway int) {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		stat, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		_, rest, _ := strings.Cut(string(stat), ") ")
		fields := strings.Fields(rest)
		line, err := os.ReadFile(filepath.Join(filepath.Dir(file), "cmdline"))
		if err != nil || len(fields) < 2 || fields[1] != strconv.Itoa(gateway) || !strings.Contains(string(line), "program-worker") {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file))); err == nil {
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
		}
	}
}

// TestProgramsSurviveKills: a gateway, or the worker, is killed during a write of a program with 20 writes. The program
// goes on, and the server has each write once. make chaos kills at each write.
func TestProgramsSurviveKills(t *testing.T) {
	t.Parallel()
	const source = `for (let n = 0; n < 20; n++) {
		const args = {round: input.round, n};
		try { await tools.counter.add(args) } catch (e) {
			if (e.code != "OUTCOME_UNKNOWN") throw e;
			if (!(await tools.counter.has(args)).n) await call((await find("add a number", {top_k: 1}))[0].tool_id, args, {again: true});
		}
	}
	return "all " + input.round`
	c := &counter{writes: map[string]int{}}
	server := httptest.NewServer(c)
	t.Cleanup(server.Close)
	r := startKept(t, fmt.Sprintf("mode: gateway\nmcpServers: {counter: {url: %q, required: true}}\n", server.URL))
	run := func(round, resume string) string {
		args := map[string]any{"program": source, "input": map[string]any{"round": round}}
		if resume != "" {
			args["resume"] = resume
		}
		_, answer, err := post(t.Context(), httpClient(t), r.base+"/mcp", "tool_run", modernCall(1, "tool_run", args))
		if err != nil {
			return err.Error()
		}
		return answer
	}
	writes := []int{0, 11, 19}
	if *everyKill {
		writes = nil
		for n := range 20 {
			writes = append(writes, n)
		}
	}
	for _, whole := range []bool{true, false} {
		for _, counted := range []bool{false, true} {
			for _, at := range writes {
				round := fmt.Sprint("gateway ", whole, ", counted ", counted, ", write ", at)
				var once sync.Once
				killed := make(chan struct{})
				c.mu.Lock()
				c.kill = func(n int, now bool) {
					if n != at || now != counted {
						return
					}
					once.Do(func() {
						defer close(killed)
						if whole {
							r.end(syscall.SIGKILL)
						} else {
							killWorkers(t, r.cmd.Process.Pid)
						}
					})
				}
				c.mu.Unlock()
				first := run(round, "")
				if strings.Contains(first, "all "+round) {
					t.Fatalf("%s: nothing was killed: %s", round, first)
				}
				<-killed
				if whole {
					r.again(t)
				}
				if answer := run(round, "last"); !strings.Contains(answer, "all "+round) {
					t.Fatalf("%s: %s, then %s", round, first, answer)
				}
				c.mu.Lock()
				for n := range 20 {
					if times := c.writes[fmt.Sprint(round, " ", n)]; times != 1 {
						t.Errorf("%s: write %d was made %d times", round, n, times)
					}
				}
				c.mu.Unlock()
			}
		}
	}
}
