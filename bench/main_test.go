package main

import (
	"bytes"
	"context"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/testkit/leak"
)

// TestMain lets the test binary be the programs that the benchmark starts of
// itself.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && !strings.HasPrefix(os.Args[1], "-") {
		os.Exit(run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	}
	leak.Main(m)
}

// Everything runs once, briefly, over real processes.
func TestRun(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	var stdout, stderr bytes.Buffer
	args := strings.Fields("-rounds 1 -round 20ms -callers 2,1 -bytes 100,20000 -memory-calls 400 -memory-idle 10ms -browses 20")
	if code := run(ctx, args, strings.NewReader(""), &stdout, &stderr); code != 0 {
		t.Fatalf("exit code %d\n%s\n%s", code, stderr.String(), stdout.String())
	}
	for _, want := range []string{
		"2 callers, 100 B", "1 caller, 100 B", "1 caller, 20000 B", "direct", "httputil.ReverseProxy", "weir passthrough", "weir passthrough, modern",
		"weir tool_execute", "result held back", "all passes", "all controls", "cache hit", "with cache_stable", "after 400 calls of 100 B", "private memory after 400 calls", "tool_browse over 10000 tools", "targets met",
	} {
		if !strings.Contains(stdout.String(), want) {
			t.Errorf("the report lacks %q:\n%s", want, stdout.String())
		}
	}
}

// TestPeers: a gateway that the user has started and the proxies that are installed are measured in the same
// rounds.
func TestPeers(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	upstream, err := freeAddress(ctx)
	if err != nil {
		t.Fatal(err)
	}
	target := &url.URL{Scheme: "http", Host: upstream}
	mine := httptest.NewServer(reverseProxy(target))
	defer mine.Close()
	var stdout, stderr bytes.Buffer
	args := strings.Fields("-rounds 1 -round 20ms -callers 2 -bytes 100,20000 -memory-calls 0 -browses 0 -systems passthrough -peers -upstream " + upstream +
		" -peer mine=" + mine.URL + "/" + legacyName + "/mcp#echo_01")
	if code := run(ctx, args, strings.NewReader(""), &stdout, &stderr); code != 0 {
		t.Fatalf("exit code %d\n%s\n%s", code, stderr.String(), stdout.String())
	}
	for _, want := range []string{"of mine", "nginx", "haproxy"} {
		if !strings.Contains(stdout.String(), want) {
			t.Errorf("the report lacks %q:\n%s", want, stdout.String())
		}
	}
}

func TestFlags(t *testing.T) {
	for _, args := range []string{"-rounds 0", "-callers 0", "-callers 1,x", "-bytes 999999999", "-round 1h", "-memory-calls -1", "-peer mine", "-peer =http://127.0.0.1:1/", "-peer a=http://127.0.0.1:1/ -peer a=http://127.0.0.1:2/", "-unknown", "extra"} {
		var stderr bytes.Buffer
		if code := run(t.Context(), strings.Fields(args), strings.NewReader(""), &stderr, &stderr); code != 2 || stderr.Len() == 0 {
			t.Errorf("%s: exit code %d, %q", args, code, stderr.String())
		}
	}
	var stderr bytes.Buffer
	if code := run(t.Context(), []string{"-weir", "/no/such/weir", "-memory-calls", "0"}, strings.NewReader(""), &bytes.Buffer{}, &stderr); code != 1 || !strings.Contains(stderr.String(), "/no/such/weir") {
		t.Errorf("a weir that is not there: exit code %d, %q", code, stderr.String())
	}
}
