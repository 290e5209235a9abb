package confined_test

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/config/mcpserver"
	"github.com/weir-mcp/weir/internal/host/sandbox"
	"github.com/weir-mcp/weir/internal/testkit/podmantest"
	"github.com/weir-mcp/weir/internal/upstream/confined"
	"github.com/weir-mcp/weir/mcp/stdio"
)

func TestMain(m *testing.M) {
	sandbox.Run()
	if len(os.Args) > 1 && os.Args[1] == "inside" {
		inside(os.Args[2:])
		return
	}
	os.Exit(m.Run())
}

// inside is a program in a container: it says what it reads, changes and reaches.
func inside(args []string) {
	say := func(what string, err error) {
		if err != nil {
			fmt.Println(what, "no", err)
			return
		}
		fmt.Println(what, "yes")
	}
	dir, host := args[0], args[1]
	data, err := os.ReadFile(dir + "/read/file")
	say("reads "+string(data), err)
	_, err = os.ReadFile(dir + "/secret/file")
	say("secret", err)
	say("changes a volume to read", os.WriteFile(dir+"/read/new", nil, 0o600))
	say("changes a volume", os.WriteFile(dir+"/write/new", []byte("new"), 0o600))
	say("changes its home", os.WriteFile(os.Getenv("HOME")+"/kept", nil, 0o600))
	say("changes its image", os.WriteFile("/new", nil, 0o600))
	t := &http.Transport{}
	if at := os.Getenv("HTTP_PROXY"); at != "" {
		if proxy, err := url.Parse(at); err == nil {
			t.Proxy = http.ProxyURL(proxy)
		}
	}
	r, err := (&http.Client{Timeout: 5 * time.Second, Transport: t}).Get("http://" + host + "/")
	if err == nil {
		_ = r.Body.Close()
		if r.StatusCode != http.StatusOK {
			err = fmt.Errorf("%s", r.Status)
		}
	}
	say("reaches a host", err)
	c, err := net.DialTimeout("tcp", host, 3*time.Second)
	if err == nil {
		c.Close()
	}
	say("reaches it past the proxy", err)
	fmt.Println("token", os.Getenv("TOKEN"))
}

// TestServerInAContainer runs a program in a container of podman as it is: volumes, the network and variables are as the entry
// has them.
func TestServerInAContainer(t *testing.T) {
	image, environ := podmantest.Image(t, os.Environ(), "inside", "/", "127.0.0.1:1")
	dir := t.TempDir()
	for _, name := range []string{"read", "write", "secret"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name, "file"), []byte("text"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	web := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer web.Close()
	host := web.Listener.Addr().String()
	state := t.TempDir()
	for name, c := range map[string]struct {
		net       []string
		reached   string
		forbidden []string
	}{
		"no network":   {[]string{"none"}, "reaches a host no", nil},
		"named hosts":  {[]string{host}, "reaches a host yes", nil},
		"another host": {[]string{"example.com"}, "reaches a host no 403", []string{host}},
	} {
		var told []string
		p := confined.New(confined.Options{Environ: environ, State: state, Reached: func(server, host string, refused error) {
			if refused != nil {
				told = append(told, host)
			}
		}})
		s := &mcpserver.Server{Name: "srv", Command: podmantest.Server}
		s.Sandbox.Image, s.Sandbox.Net, s.Sandbox.Read, s.Sandbox.Write = image, c.net, append([]string{dir + "/read"}, podmantest.Libraries...), []string{dir + "/write"}
		cmd := stdio.Command{Path: s.Command, Args: []string{"inside", dir, host}, Env: []string{"PATH=" + os.Getenv("PATH"), "TOKEN=hunter2", "GORACE=atexit_sleep_ms=0"}}
		end, err := p.Confine(s, &cmd)
		if err != nil {
			t.Fatal(err)
		}
		out, err := (&exec.Cmd{Path: cmd.Path, Args: append([]string{cmd.Path}, cmd.Args...), Env: cmd.Env, Dir: cmd.Dir}).CombinedOutput()
		end()
		if err != nil {
			t.Errorf("%s: %v: %s", name, err, out)
			continue
		}
		for _, want := range []string{"reads text yes", "secret no", "changes a volume to read no", "changes a volume yes", "changes its home yes", "changes its image no", c.reached, "reaches it past the proxy no", "token hunter2"} {
			if !strings.Contains(string(out), want) {
				t.Errorf("%s: %q is missing in\n%s", name, want, out)
			}
		}
		if strings.Join(told, " ") != strings.Join(c.forbidden, " ") {
			t.Errorf("%s: refused %q", name, told)
		}
	}
}
