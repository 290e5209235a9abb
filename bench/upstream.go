package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// toolsPerUpstream is how many tools each server lists: echo, and others that
// do the same.
const toolsPerUpstream = 50

// maxMessage bounds one message of the benchmark.
const maxMessage = 16 << 20

// Names of the servers at /{name}/mcp: one for each era, the others legacy.
const (
	legacyName = "legacy"
	modernName = "modern"
)

const (
	legacyVersion = "2025-11-25"
	modernVersion = "2026-07-28"
)

// toolName is the name of a server's n-th tool.
func toolName(n int) string {
	if n == 0 {
		return "echo"
	}
	return fmt.Sprintf("echo_%02d", n)
}

// toolDefs are the definitions that every server lists, of ordinary size.
func toolDefs() []json.RawMessage {
	subjects := strings.Fields("invoices customers orders tickets issues files calendars contacts shipments reports")
	defs := make([]json.RawMessage, toolsPerUpstream)
	for n := range defs {
		subject := subjects[n%len(subjects)]
		defs[n] = json.RawMessage(fmt.Sprintf(`{"name":%q,"description":"Returns the text it was given, as number %d of the tools around %s. Use it where a call has to cost nothing but its transport; the text comes back as one content block, unchanged and in full.",`+
			`"inputSchema":{"type":"object","properties":{"text":{"type":"string","description":"What is to come back."},"lang":{"type":"string","enum":["en","de","fr"],"description":"The language of the text."},"limit":{"type":"integer","minimum":1,"maximum":1000,"description":"How many %s to look at."}},"required":["text"],"additionalProperties":false},`+
			`"annotations":{"readOnlyHint":true}}`, toolName(n), n, subject, subject))
	}
	return defs
}

// manyTools is how many tools a server lists whose name starts with manyPrefix.
const (
	manyTools  = 1000
	manyPrefix = "many"
)

// manyDefs are the definitions of such a server, in the words of real ones.
func manyDefs(server string) []json.RawMessage {
	verbs := strings.Fields("list get create update delete search export import merge watch")
	nouns := strings.Fields("issue file invoice customer deployment calendar message branch metric image ticket order contact report shipment account table dashboard")
	scopes := strings.Fields("project team repository workspace region tenant archive channel")
	defs := make([]json.RawMessage, manyTools)
	for n := range defs {
		verb, noun, scope := verbs[n%len(verbs)], nouns[n/len(verbs)%len(nouns)], scopes[n/180%len(scopes)]
		defs[n] = fmt.Appendf(nil, `{"name":"%s_%s_%s_%d","description":"%s the %ss of a %s on %s and return what was found or changed, newest first.","inputSchema":{"type":"object","properties":{"id":{"type":"string","description":"Which %s."},"%s":{"type":"string","description":"The %s to look in."},"limit":{"type":"integer","minimum":1}},"required":["id"]}}`,
			verb, noun, scope, n, verb, noun, scope, server, noun, scope, scope)
	}
	return defs
}

// upstream answers MCP messages with as little work as possible. It reads only the form that this
// program and weir send: compact JSON with the method before params.
type upstream struct {
	tools []byte // the tools/list result without its closing brace
}

func newUpstream() *upstream {
	return &upstream{tools: listOf(toolDefs())}
}

// listOf is a tools/list result without its closing brace.
func listOf(defs []json.RawMessage) []byte {
	return append(append([]byte(`{"tools":[`), bytes.Join(rawBytes(defs), []byte{','})...), ']')
}

func rawBytes(msgs []json.RawMessage) [][]byte {
	out := make([][]byte, len(msgs))
	for i, m := range msgs {
		out[i] = m
	}
	return out
}

// between is the part of b from after to the next end, nil where there is no such place.
func between(b []byte, after, end string) []byte {
	_, b, ok := bytes.Cut(b, []byte(after))
	if !ok {
		return nil
	}
	n := bytes.IndexByte(b, end[0])
	if n < 0 {
		return nil
	}
	return b[:n]
}

// answer appends the answer of a server of this name to msg, and returns dst as it was for a
// notification. status is the HTTP status.
func (u *upstream) answer(dst, msg []byte, server string) (out []byte, status int) {
	modern := server == modernName
	method := string(between(msg, `"method":"`, `"`))
	id := between(msg[:min(len(msg), 256)], `"id":`, `,`)
	if id == nil || method == "" {
		return dst, http.StatusAccepted
	}
	out = append(append(append(dst, `{"jsonrpc":"2.0","id":`...), id...), `,"result":`...)
	const info = `{"name":"bench","version":"1"}`
	switch {
	case method == "tools/call":
		text := between(msg, `"arguments":{"text":"`, `"`)
		out = append(append(append(out, `{"content":[{"type":"text","text":"`...), text...), `"}],"isError":false`...)
		if modern {
			out = append(out, `,"resultType":"complete"`...)
		}
		return append(out, `}}`...), http.StatusOK
	case method == "tools/list":
		tools := u.tools
		if strings.HasPrefix(server, manyPrefix) {
			tools = listOf(manyDefs(server))
		}
		out = append(out, tools...)
		if modern {
			out = append(out, `,"resultType":"complete","ttlMs":60000,"cacheScope":"public"`...)
		}
		return append(out, `}}`...), http.StatusOK
	case method == "initialize" && !modern:
		return append(out, `{"protocolVersion":"`+legacyVersion+`","capabilities":{"tools":{}},"serverInfo":`+info+`}}`...), http.StatusOK
	case method == "ping" && !modern:
		return append(out, `{}}`...), http.StatusOK
	case method == "server/discover" && modern:
		return append(out, `{"resultType":"complete","supportedVersions":["`+modernVersion+`"],"capabilities":{"tools":{}},"ttlMs":60000,"cacheScope":"public","_meta":{"io.modelcontextprotocol/serverInfo":`+info+`}}}`...), http.StatusOK
	}
	out = append(append(append(dst, `{"jsonrpc":"2.0","id":`...), id...), `,"error":{"code":-32601,"message":"method not found"}}`...)
	status = http.StatusOK
	if modern {
		status = http.StatusNotFound
	}
	return out, status
}

// exchange holds the buffers of one HTTP request.
type exchange struct{ in, out []byte }

// handler serves /{name}/mcp.
func (u *upstream) handler() http.Handler {
	pool := sync.Pool{New: func() any { return new(exchange) }}
	contentType := []string{"application/json"}
	var sessions atomic.Int64
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, rest, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
		if rest != "mcp" {
			http.NotFound(w, r)
			return
		}
		switch r.Method {
		case http.MethodPost:
		case http.MethodDelete:
			w.WriteHeader(http.StatusNoContent)
			return
		default:
			w.Header().Set("Allow", "POST, DELETE")
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		x := pool.Get().(*exchange)
		defer pool.Put(x)
		var err error
		if x.in, err = readBody(r, x.in); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		var status int
		x.out, status = u.answer(x.out[:0], x.in, name)
		h := w.Header()
		if len(x.out) > 0 {
			h["Content-Type"] = contentType
			h["Content-Length"] = []string{strconv.Itoa(len(x.out))}
		}
		if name != modernName && bytes.Contains(x.in[:min(len(x.in), 128)], []byte(`"initialize"`)) {
			h["Mcp-Session-Id"] = []string{"bench-" + strconv.FormatInt(sessions.Add(1), 10)}
		}
		w.WriteHeader(status)
		_, _ = w.Write(x.out)
	})
}

// readBody reads a whole body into buf.
func readBody(r *http.Request, buf []byte) ([]byte, error) {
	n := int(r.ContentLength)
	if n > maxMessage {
		return buf, errors.New("message too large")
	}
	if n >= 0 {
		if cap(buf) < n {
			buf = make([]byte, n)
		}
		buf = buf[:n]
		_, err := io.ReadFull(r.Body, buf)
		return buf, err
	}
	b := bytes.NewBuffer(buf[:0])
	_, err := b.ReadFrom(io.LimitReader(r.Body, maxMessage))
	return b.Bytes(), err
}

// serveUpstream serves until ctx ends or stdin is closed, which it is when the
// program that started it is gone.
func serveUpstream(ctx context.Context, args []string, stdin io.Reader, stdout io.Writer) error {
	if len(args) != 1 {
		return errors.New("upstream needs an address to listen on")
	}
	return serveHTTP(ctx, args[0], newUpstream().handler(), stdin, stdout)
}

// freePort is an address of loopback with a port that the system chooses.
const freePort = "127.0.0.1:0"

// serveHTTP serves h at an address and prints it first.
func serveHTTP(ctx context.Context, listen string, h http.Handler, stdin io.Reader, stdout io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", listen)
	if err != nil {
		return err
	}
	srv := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 10 * time.Minute}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(ln) }()
	if _, err := fmt.Fprintf(stdout, "http://%s\n", ln.Addr()); err != nil {
		cancel()
	}
	go func() { // ends with the process, as a read of stdin cannot be broken off
		_, _ = io.Copy(io.Discard, stdin)
		cancel()
	}()
	select {
	case <-ctx.Done():
	case err := <-served:
		return err
	}
	_ = srv.Close()
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// serveStdio is the same server on standard input and output.
func serveStdio(stdin io.Reader, stdout io.Writer) error {
	u := newUpstream()
	in := bufio.NewReaderSize(stdin, 64<<10)
	out := bufio.NewWriterSize(stdout, 64<<10)
	var line, reply []byte
	for {
		part, err := in.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case errors.Is(err, bufio.ErrBufferFull) && len(line) <= maxMessage:
			continue
		case errors.Is(err, io.EOF):
			return out.Flush()
		case err != nil:
			return err
		}
		reply, _ = u.answer(reply[:0], line, legacyName)
		line = line[:0]
		if len(reply) > 0 {
			if _, err := out.Write(append(reply, '\n')); err != nil {
				return err
			}
		}
		if in.Buffered() == 0 {
			if err := out.Flush(); err != nil {
				return err
			}
		}
	}
}
