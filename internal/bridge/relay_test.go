package bridge_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/weir-mcp/weir/internal/bridge"
	"github.com/weir-mcp/weir/mcp"
)

// starting is a server that starts for a client and says what it knows of the client then.
type starting struct {
	bridge.Server
	told *string
}

func (s starting) Ready(ctx context.Context) (mcp.Hello, error) {
	_, capabilities := mcp.Caller(ctx).Client()
	*s.told = string(capabilities)
	return mcp.Hello{}, errors.New("it does not start")
}

// TestClientOfAServerThatStarts: a server that starts with the handshake of a client knows what that client declares.
func TestClientOfAServerThatStarts(t *testing.T) {
	for params, want := range map[string]string{
		`{"protocolVersion":"2025-11-25","capabilities":{"sampling":{}}}`: `{"sampling":{}}`,
		`{"protocolVersion":"2025-11-25"}`:                                `{}`,
	} {
		told := ""
		x := bridge.Relay{Name: "own", Server: starting{told: &told}}
		session := mcp.NewSession("", "ann")
		_, err := x.Serve(mcp.WithCaller(t.Context(), session), &mcp.Request{ID: "1", Method: "initialize", Params: json.RawMessage(params), Session: session, Peer: mcp.NoPeer})
		if err == nil || told != want {
			t.Errorf("%s: the server was told %q, %v", params, told, err)
		}
		if v := session.Version(); v != "" {
			t.Errorf("a handshake that failed has the version %s", v)
		}
		x.Close()
		session.Close()
	}
}
