package agentserver

import (
	"bytes"
	"io"

	"github.com/weir-mcp/weir/internal/text/redact"
)

// secretsOf returns the secrets in the arguments and variables of a command: texts that are secret
// by their name, their place or their form.
func secretsOf(args []string, env map[string]string) *redact.Set {
	all := redact.InArgs(args)
	for name, value := range env {
		if redact.Telling(name) || !redact.Plain(value) {
			all = append(all, value)
		}
		all = append(all, redact.InURL(value)...)
	}
	return redact.New(all)
}

// maxLine bounds how much of a line waits for its end.
const maxLine = 64 << 10

// redactingWriter writes its input to w, line by line and without secrets. If there are no secrets,
// it buffers nothing. It is for one goroutine.
type redactingWriter struct {
	w       io.Writer
	secrets *redact.Set
	line    []byte
}

func concealed(w io.Writer, secrets *redact.Set) *redactingWriter {
	return &redactingWriter{w: w, secrets: secrets}
}

// Write implements io.Writer.
func (c *redactingWriter) Write(p []byte) (int, error) {
	if c.secrets == nil {
		return c.w.Write(p)
	}
	c.line = append(c.line, p...)
	if end := bytes.LastIndexByte(c.line, '\n') + 1; end > 0 {
		c.hand(end)
	}
	if len(c.line) > maxLine {
		c.hand(len(c.line))
	}
	return len(p), nil
}

// flush writes the rest of the last line.
func (c *redactingWriter) flush() {
	if len(c.line) > 0 {
		c.hand(len(c.line))
	}
}

// hand writes the first n bytes of the buffer to w.
func (c *redactingWriter) hand(n int) {
	_, _ = io.WriteString(c.w, c.secrets.Replace(string(c.line[:n]))) // the log and the tail take everything
	c.line = append(c.line[:0], c.line[n:]...)
}
