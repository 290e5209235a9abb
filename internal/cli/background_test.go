package cli

import (
	"net"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/weir-mcp/weir/internal/testkit/proctest"
)

// TestAttachIsNotAboveItsGateway: a client that ends the tree of processes of its servers leaves
// the gateway to the other clients.
func TestAttachIsNotAboveItsGateway(t *testing.T) {
	t.Parallel()
	state := t.TempDir()
	endGateway(t, state)
	path := writeConfig(t, "weir.yaml", "listen: 127.0.0.1:0\nmcpServers: {fake: {command: '%FAKE%'}}\n")
	cmd := exec.Command(weirBin, "attach", "--config", path, "--mode", "plain", "--idle-exit", "1m")
	cmd.Env = environment("XDG_STATE_HOME=" + state)
	session, err := sdk.NewClient(&sdk.Implementation{Name: "sdk", Version: "1"}, nil).Connect(t.Context(), &sdk.CommandTransport{Command: cmd}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	pid := recordOf(t, state).PID
	if !proctest.Guarded(pid) {
		t.Errorf("gateway %d would outlive a killed test", pid)
	}
	for above := pid; above > 1; {
		out, err := exec.Command("ps", "-o", "ppid=", "-p", strconv.Itoa(above)).Output()
		if err != nil {
			t.Fatalf("the parent of %d: %v", above, err)
		}
		if above, err = strconv.Atoi(strings.TrimSpace(string(out))); err != nil {
			t.Fatal(err)
		}
		if above == cmd.Process.Pid {
			t.Fatalf("gateway %d stands below weir attach, %d", pid, above)
		}
	}
}

// TestAttachTellsWhyItsGatewayEnded: a gateway that cannot serve is reported when it ends, and not
// when weir attach has waited in vain.
func TestAttachTellsWhyItsGatewayEnded(t *testing.T) {
	t.Parallel()
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	state := t.TempDir()
	endGateway(t, state)
	path := writeConfig(t, "weir.yaml", "listen: "+busy.Addr().String()+"\nmcpServers: {}\n")
	cmd := exec.Command(weirBin, "attach", "--config", path)
	cmd.Env = environment("XDG_STATE_HOME=" + state)
	cmd.Stdin = strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}` + "\n")
	began := time.Now()
	out, _ := cmd.CombinedOutput()
	if text := string(out); !strings.Contains(text, "weir serve ended at once") || !strings.Contains(text, busy.Addr().String()) {
		t.Errorf("weir attach says: %s", text)
	}
	if took := time.Since(began); took >= startWait {
		t.Errorf("told after %s", took)
	}
}
