package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// taskAgent has async tools: one that ends, and one that writes its process id to a file and does
// not end. It runs several calls at once.
const taskAgent = `
name: stock
concurrency: 8
tools:
  - {name: later, async: true, command: /bin/sh, args: [-c, "sleep 1; echo counted"]}
  - {name: never, async: true, command: /bin/sh, args: [-c, "read -r line; echo $$ > $(printf %s \"$line\" | sed 's/.*\"pid\":\"\\([^\"]*\\)\".*/\\1/'); sleep 300"]}
`

// taskGateway starts an agent server and a gateway that waits only for a short time.
func taskGateway(t *testing.T, wait string) *server {
	t.Helper()
	a := startAgent(t, taskAgent, nil)
	s := serve(t, fmt.Sprintf("tasks: {wait: %s}\nmcpServers: {stock: {url: %q, agent: true}}\n", wait, a.base+"/mcp"))
	s.tool("stock:later")
	return s
}

// pidIn returns the process id that a tool writes to a file once it runs.
func pidIn(t *testing.T, path string) int {
	t.Helper()
	var pid int
	until(t, "runs", func() string {
		data, _ := os.ReadFile(path)
		var err error
		if pid, err = strconv.Atoi(strings.TrimSpace(string(data))); err != nil {
			return "no process"
		}
		return "runs"
	})
	return pid
}

// ends waits for the end of a process.
func ends(t *testing.T, pid int) {
	t.Helper()
	until(t, "gone", func() string {
		if gone(pid) {
			return "gone"
		}
		return "runs"
	})
}

// ways are the ways in which weir call reaches a tool.
func ways(s *server) map[string][]string {
	return map[string][]string{
		"a gateway that runs":  {"--url", s.url},
		"a gateway of its own": {"--config", s.config},
		"the router":           {"--server", "stock", "--url", s.url},
	}
}

// TestCallAwaitsItsTask: a call that becomes a task ends in the result, in each form of output.
func TestCallAwaitsItsTask(t *testing.T) {
	t.Parallel()
	s := taskGateway(t, "200ms")
	for name, way := range ways(s) {
		for form, want := range map[string]string{"": "counted\n", "--raw": "counted\n", "--json": `"text": "counted`, "--envelope": `"status": "ok"`} {
			if form == "--envelope" && way[0] == "--server" {
				continue // the router has none
			}
			t.Run(name+form, func(t *testing.T) {
				t.Parallel()
				args := append([]string{"call", "later"}, way...)
				if form != "" {
					args = append(args, form)
				}
				got := weir(t, args...).want(t, exitOK)
				if !strings.Contains(got.stdout, want) || strings.Contains(got.stdout, "task_") {
					t.Errorf("stdout %q", got.stdout)
				}
			})
		}
	}
}

// TestInterruptedCallCancelsItsTask: Ctrl-C and --timeout end the process that the task runs, while
// the call itself is answered and while its task is waited for.
func TestInterruptedCallCancelsItsTask(t *testing.T) {
	t.Parallel()
	for _, wait := range []string{"100ms", "10m"} {
		s := taskGateway(t, wait)
		for name, way := range ways(s) {
			t.Run(name+" that waits "+wait, func(t *testing.T) {
				t.Parallel()
				file := filepath.Join(t.TempDir(), "pid")
				args, _ := json.Marshal(map[string]string{"pid": file})
				cmd := exec.Command(weirBin, append([]string{"call", "never", "--json=" + string(args)}, way...)...)
				cmd.Env, cmd.Dir = environment(), t.TempDir()
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				pid := pidIn(t, file)
				if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
					t.Fatal(err)
				}
				began := time.Now()
				_ = cmd.Wait()
				if code := cmd.ProcessState.ExitCode(); code != exitInterrupted || time.Since(began) > 10*time.Second {
					t.Errorf("%s after %s", cmd.ProcessState, time.Since(began))
				}
				ends(t, pid)
			})
			t.Run(name+" with a timeout, that waits "+wait, func(t *testing.T) {
				t.Parallel()
				file := filepath.Join(t.TempDir(), "pid")
				args, _ := json.Marshal(map[string]string{"pid": file})
				weir(t, append([]string{"call", "never", "--timeout", "5s", "--json=" + string(args)}, way...)...).
					want(t, exitUnavailable, "no result after 5s and was cancelled")
				ends(t, pidIn(t, file))
			})
		}
	}
}
