package upstream

import (
	"fmt"
	"sync"

	"github.com/weir-mcp/weir/internal/host/child"
	"github.com/weir-mcp/weir/mcp/stdio"
)

// lineCost is what a line of junk counts in addition to its bytes.
const lineCost = 512

// maxJunkLogged bounds the logged lines of an upstream.
const maxJunkLogged = 20

// junk counts a connection's input that is not MCP. The usual cause is a program that prints logs
// to stdout instead of stderr.
type junk struct {
	srv     *server
	printed bool       // by a program, to stdout
	pace    child.Pace // of take

	mu    sync.Mutex // guards below
	first string
}

// take counts a line and logs it. If a server sends junk without end, it waits: the reader of the
// connection calls it.
func (j *junk) take(data []byte, err error) {
	j.pace.Took(len(data) + lineCost)
	logged := j.srv.junkLogged.Add(1)
	j.mu.Lock()
	known := j.first != ""
	j.mu.Unlock()
	if known && logged > maxJunkLogged {
		return
	}
	line := stdio.Excerpt(string(data[:min(len(data), 8<<10)]), j.srv.opts.Redact)
	j.mu.Lock()
	if j.first == "" {
		j.first = line
	}
	j.mu.Unlock()
	if logged > maxJunkLogged {
		return
	}
	where := "skipped what is no MCP message"
	if j.printed {
		where = "skipped a line of stdout, which is for MCP messages only; the server should print it to stderr"
	}
	j.srv.log.Warn(where, "line", line, "bytes", len(data), "err", err)
	if logged == maxJunkLogged {
		j.srv.log.Warn("further lines that are no MCP message are skipped and not logged", "logged", logged)
	}
}

// hint returns the end of the error message for a server that did not answer the handshake, "" if
// the server sent no junk.
func (j *junk) hint() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	switch {
	case j.first == "":
		return ""
	case j.printed:
		return fmt.Sprintf("; it printed %q to stdout, which is for MCP messages only: its owner should have it print that to stderr", j.first)
	}
	return fmt.Sprintf("; it sent %q, which is no MCP message", j.first)
}
