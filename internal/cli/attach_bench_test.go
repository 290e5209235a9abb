package cli

import (
	"bufio"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// BenchmarkAttachHop compares a call over weir attach with the same call over HTTP, at the same
// gateway and with the same client library. µs/hop is the difference of the medians.
func BenchmarkAttachHop(b *testing.B) {
	state := b.TempDir()
	path := b.TempDir() + "/weir.yaml"
	gateway := exec.Command(weirBin, "serve", "--config", path, "--listen", "127.0.0.1:0")
	gateway.Env = environment("XDG_STATE_HOME=" + state)
	url := startForBench(b, gateway, path)
	attached := exec.Command(weirBin, "attach", "--config", path, "--mode", "gateway")
	attached.Env = gateway.Env
	direct := &sdk.StreamableClientTransport{Endpoint: url + "?mode=gateway", HTTPClient: &http.Client{Transport: &http.Transport{}}}
	median := func(transport sdk.Transport) time.Duration {
		session, err := sdk.NewClient(&sdk.Implementation{Name: "bench", Version: "1"}, nil).Connect(b.Context(), transport, nil)
		if err != nil {
			b.Fatal(err)
		}
		defer session.Close()
		var took []time.Duration
		for range max(b.N, 100) {
			began := time.Now()
			if _, err := session.CallTool(b.Context(), &sdk.CallToolParams{Name: "tool_browse", Arguments: map[string]any{"path": "/"}}); err != nil {
				b.Fatal(err)
			}
			took = append(took, time.Since(began))
		}
		slices.Sort(took)
		return took[len(took)/2]
	}
	over, alone := median(&sdk.CommandTransport{Command: attached}), median(direct)
	b.ReportMetric(float64((over-alone).Nanoseconds())/1000, "µs/hop")
	b.ReportMetric(float64(over)/float64(alone), "of-HTTP")
}

// startForBench starts a gateway without servers and returns its URL.
func startForBench(b *testing.B, gateway *exec.Cmd, path string) string {
	b.Helper()
	if err := os.WriteFile(path, []byte("mcpServers: {}\n"), 0o600); err != nil {
		b.Fatal(err)
	}
	stdout, err := gateway.StdoutPipe()
	if err == nil {
		err = gateway.Start()
	}
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = gateway.Process.Signal(syscall.SIGTERM)
		_ = gateway.Wait()
	})
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		if url := urlLine.FindString(lines.Text()); url != "" {
			return url
		}
	}
	b.Fatal("the gateway printed no URL")
	return ""
}
