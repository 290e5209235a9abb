package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"
)

// peer is a proxy or gateway of others that takes the same calls in the same rounds.
type peer struct {
	name string
	at   endpoint
	tool string // name of echo there
}

// peerFlag reads NAME=URL or NAME=URL#TOOL, such as mygateway=http://127.0.0.1:3000/mcp#bench_echo.
func peerFlag(into *[]peer) func(string) error {
	return func(text string) error {
		name, rest, ok := strings.Cut(text, "=")
		u, err := url.Parse(rest)
		if !ok || name == "" || err != nil || u.Scheme != "http" || u.Port() == "" || u.User != nil {
			return errors.New("want NAME=http://HOST:PORT/PATH#TOOL")
		}
		for _, other := range *into {
			if other.name == name {
				return fmt.Errorf("%s is named twice", name)
			}
		}
		tool := u.Fragment
		if tool == "" {
			tool = toolName(0)
		}
		*into = append(*into, peer{name: name, at: legacyAt(u.Host, u.RequestURI()), tool: tool})
		return nil
	}
}

// system is the row of the peer in a table.
func (p peer) system() system {
	return system{
		name: p.name, baseline: proxyLegacy, peer: true, tool: p.tool,
		at:    func(*stage) endpoint { return p.at },
		added: func(int) bool { return false },
	}
}

// A proxyProgram is a well-known reverse proxy that is measured where it is installed. Its configuration
// follows the recommendations of its documentation for kept connections in both directions.
type proxyProgram struct {
	name   string
	config func(dir, listen, upstream string) string
	args   func(dir, file string) []string
}

var proxyPrograms = []proxyProgram{
	{
		name: "nginx",
		config: func(dir, listen, upstream string) string {
			return fmt.Sprintf(`daemon off; master_process on; worker_processes auto; pid %[1]s/nginx.pid; error_log stderr;
events { worker_connections 4096; }
http {
  access_log off; keepalive_requests 100000000; client_max_body_size 16m; client_body_buffer_size 1m;
  proxy_buffers 16 64k; proxy_buffer_size 64k; proxy_busy_buffers_size 512k;
  client_body_temp_path %[1]s; proxy_temp_path %[1]s; fastcgi_temp_path %[1]s; uwsgi_temp_path %[1]s; scgi_temp_path %[1]s;
  upstream mcp { server %[3]s; keepalive 64; keepalive_requests 100000000; }
  server {
    listen %[2]s;
    location / { proxy_pass http://mcp; proxy_http_version 1.1; proxy_set_header Connection ""; }
  }
}
`, dir, listen, upstream)
		},
		args: func(dir, file string) []string { return []string{"-p", dir, "-e", "stderr", "-c", file} },
	},
	{
		name: "haproxy",
		config: func(_, listen, upstream string) string {
			return fmt.Sprintf(`defaults
  mode http
  timeout connect 5s
  timeout client 10m
  timeout server 10m
  http-reuse always
listen mcp
  bind %s
  server upstream %s
`, listen, upstream)
		},
		args: func(_, file string) []string { return []string{"-db", "-f", file} },
	},
}

// startPeers starts the proxies that are installed. It names the others in the report.
func (s *stage) startPeers(ctx context.Context, out *report) error {
	for _, program := range proxyPrograms {
		binary, err := exec.LookPath(program.name)
		if err != nil {
			binary, err = exec.LookPath("/usr/sbin/" + program.name)
		}
		if err != nil {
			out.note(program.name + " is not installed and is left out.")
			continue
		}
		listen, err := freeAddress(ctx)
		if err != nil {
			return err
		}
		dir := filepath.Join(s.dir, program.name)
		if err := os.Mkdir(dir, 0o755); err != nil { // workers of nginx run as another user
			return err
		}
		file := filepath.Join(dir, "conf")
		if err := os.WriteFile(file, []byte(program.config(dir, listen, s.upstream)), 0o600); err != nil {
			return err
		}
		p, err := startAt(ctx, program.name, listen, binary, program.args(dir, file)...)
		if err != nil {
			return err
		}
		s.processes = append(s.processes, p)
		s.peers = append(s.peers, peer{name: program.name, at: legacyAt(listen, "/"+legacyName+"/mcp"), tool: toolName(0)})
	}
	return nil
}

// freeAddress returns an address on loopback that is free at the moment.
func freeAddress(ctx context.Context) (string, error) {
	ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", freePort)
	if err != nil {
		return "", err
	}
	return ln.Addr().String(), ln.Close()
}

// startAt runs a program and waits until it takes connections at an address.
func startAt(ctx context.Context, name, addr, program string, args ...string) (*process, error) {
	p, err := launch(ctx, name, program, args...)
	if err != nil {
		return nil, err
	}
	p.host = addr
	go p.drain(func([]byte) {})
	deadline := time.NewTimer(startTime)
	defer deadline.Stop()
	for {
		c, err := dial(ctx, addr)
		if err == nil {
			c.close()
			return p, nil
		}
		select {
		case <-time.After(20 * time.Millisecond):
			continue
		case <-p.read:
			err = errors.New("it ended at once")
		case <-deadline.C:
		case <-ctx.Done():
			err = ctx.Err()
		}
		p.stop()
		return nil, fmt.Errorf("%s: %w\n%s", name, err, p.stderr.String())
	}
}

// peers prints the ratio of weir's systems to each peer.
func (r *report) peers(list []*contender) {
	w := tabwriter.NewWriter(r.w, 0, 0, 2, ' ', 0)
	for _, p := range list {
		if !p.peer {
			continue
		}
		for _, c := range list {
			if strings.HasPrefix(c.name, "weir ") && c.baseline == proxyLegacy {
				fmt.Fprintf(w, "  %s\t%.2f of %s\t\n", c.name, ratioOf(c, p), p.name)
			}
		}
	}
	_ = w.Flush()
}
