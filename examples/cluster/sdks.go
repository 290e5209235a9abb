package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"time"
)

// sdks is clients of other languages, each a process that calls until its input ends and writes a line for each call:
//
//	client.mjs, client.py   ─ {"ms","error","last"} for a call
//	computer.py             ─ {"ms","error"} when it is in its office, with the time for which it was not
type sdks struct {
	clients []*foreign
}

// foreign is one of them.
type foreign struct {
	name string
	cmd  *process
	in   io.Closer
	said chan struct{} // closed at the end of what it says

	mu      sync.Mutex // guards below
	calls   tally
	joins   int
	longest time.Duration // until it was in its office again
	last    string        // of the last call: "ok", or why not
}

// said is a line.
type said struct {
	Ms    int64  `json:"ms"`
	Error string `json:"error"`
	Last  bool   `json:"last"`
}

// clientsDir returns the folder of the programs.
func clientsDir() (string, error) {
	out, err := exec.Command("go", "list", "-f", "{{.Dir}}", "github.com/weir-mcp/weir/examples/cluster").Output()
	if err != nil {
		return "", fmt.Errorf("the folder of this example: %w", err)
	}
	return filepath.Join(string(out[:len(out)-1]), "clients"), nil
}

// pythonOf returns the Python of an installation.
func pythonOf(dir string) string {
	if runtime.GOOS == "windows" {
		return filepath.Join(dir, ".venv", "Scripts", "python.exe")
	}
	return filepath.Join(dir, ".venv", "bin", "python")
}

// install installs what the programs need below their folder, in folders that git ignores.
func install(ctx context.Context, out io.Writer) error {
	dir, err := clientsDir()
	if err != nil {
		return err
	}
	for _, args := range [][]string{
		{"npm", "install", "--no-audit", "--no-fund", "--no-package-lock"},
		{"python3", "-m", "venv", ".venv"},
		{pythonOf(dir), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", "requirements.txt"},
	} {
		cmd := exec.CommandContext(ctx, args[0], args[1:]...)
		cmd.Dir, cmd.Stdout, cmd.Stderr = dir, out, out
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("%s: %w", args[0], err)
		}
	}
	return nil
}

// startSDKs starts the clients that are installed: one of the TypeScript SDK, one of the Python
// SDK, and a Computer of python-socketio.
func startSDKs(c *cluster) (s *sdks, err error) {
	s = &sdks{}
	dir, err := clientsDir()
	if err != nil {
		return s, nil // the program runs without its checkout
	}
	there := func(path ...string) bool {
		_, err := os.Stat(filepath.Join(append([]string{dir}, path...)...))
		return err == nil
	}
	url := c.url + "/mcps/counter/mcp"
	var all [][]string
	if there("node_modules", "@modelcontextprotocol", "sdk") {
		all = append(all, []string{"TypeScript SDK", "node", "client.mjs", url, "typescript"})
	}
	if _, err := os.Stat(pythonOf(dir)); err == nil {
		all = append(all, []string{"Python SDK", pythonOf(dir), "client.py", url, "python"},
			[]string{"python-socketio Computer", pythonOf(dir), "computer.py", c.url, "bench", officeName})
	}
	for _, args := range all {
		f := &foreign{name: args[0], said: make(chan struct{})}
		cmd := exec.Command(args[1], args[2:]...)
		cmd.Dir, cmd.Stderr = dir, io.Discard
		in, err := cmd.StdinPipe()
		if err != nil {
			return s, err
		}
		out, w, err := os.Pipe() // the end of the process must not lose its last line
		if err != nil {
			return s, err
		}
		cmd.Stdout = w
		f.cmd, err = c.run(cmd)
		_ = w.Close()
		if err != nil {
			_ = out.Close()
			return s, fmt.Errorf("%s: %w", f.name, err)
		}
		f.in = in
		s.clients = append(s.clients, f)
		go f.listen(out)
	}
	return s, nil
}

// listen counts what a client says.
func (f *foreign) listen(out io.ReadCloser) {
	defer close(f.said)
	defer out.Close()
	for lines := bufio.NewScanner(out); lines.Scan(); {
		var line said
		if json.Unmarshal(lines.Bytes(), &line) != nil {
			continue
		}
		took := time.Duration(line.Ms) * time.Millisecond
		var err error
		if line.Error != "" {
			err = errors.New(line.Error)
		}
		f.mu.Lock()
		if f.joins++; f.joins > 1 {
			f.longest = max(f.longest, took)
		}
		if line.Last {
			f.last = "ok"
			if err != nil {
				f.last = line.Error
			}
		}
		f.mu.Unlock()
		f.calls.add(time.Now().Add(-took), callTimeout, err)
	}
}

// settle ends the input of the clients, and waits for what they say then. It kills those that do not end.
func (s *sdks) settle(ctx context.Context) {
	for _, f := range s.clients {
		_ = f.in.Close()
	}
	for _, f := range s.clients {
		select {
		case <-f.said:
		case <-ctx.Done():
		}
		f.cmd.kill()
		<-f.said
	}
}

// close ends the clients at once.
func (s *sdks) close() {
	for _, f := range s.clients {
		f.cmd.kill()
	}
}

// rows are those of the clients. Call it after settle.
func (s *sdks) rows(patience time.Duration) (all []row) {
	for _, f := range s.clients {
		f.mu.Lock()
		if f.name == "python-socketio Computer" {
			all = append(all, row{f.name + " comes back within 10 s", fmt.Sprintf("%d times in its office, away for at most %.1f s", f.joins, f.longest.Seconds()),
				f.joins > 0 && f.longest <= returnTime+patience})
		} else {
			r := f.calls.row(f.name + ": it goes on")
			if f.last != "ok" {
				r.gave, r.kept = r.gave+"; last: "+f.last, false
			}
			all = append(all, r)
		}
		f.mu.Unlock()
	}
	return all
}
