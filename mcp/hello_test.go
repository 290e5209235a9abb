package mcp_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/jsonrpc"
)

// greeter is a Peer that answers a handshake as told: answers maps
// "method version" to a result, an error object, "silence", "refused" or
// "who are you".
type greeter struct {
	answers map[string]string
	session *mcp.Session
	said    []string
	atInit  string // the session's version when notifications/initialized came
}

func (g *greeter) Session() *mcp.Session { return g.session }

func (g *greeter) Call(ctx context.Context, method string, params json.RawMessage, _ mcp.Handler) (json.RawMessage, error) {
	version := rawjson.Text(rawjson.Get(params, "protocolVersion"))
	if version == "" {
		version = rawjson.Text(rawjson.GetPath(params, "_meta", mcp.MetaVersion))
	}
	key := method + " " + version
	g.said = append(g.said, key)
	switch answer, ok := g.answers[key]; {
	case !ok:
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "no " + key}
	case answer == "silence":
		<-ctx.Done()
		return nil, ctx.Err()
	case answer == "gone":
		return nil, mcp.Errorf(mcp.KindUpstreamUnavailable, "gone")
	case answer == "who are you":
		return nil, mcp.Errorf(mcp.KindUnauthorized, "needs a sign-in")
	case answer == "refused":
		return nil, mcp.Errorf(mcp.KindUpstreamUnavailable, "405: %w", mcp.ErrRefused)
	case strings.HasPrefix(answer, `{"code"`):
		return nil, jsonrpc.ParseError([]byte(answer))
	default:
		return json.RawMessage(answer), nil
	}
}

func (g *greeter) Notify(_ context.Context, method string, _ json.RawMessage) error {
	g.said = append(g.said, method)
	g.atInit = g.session.Version()
	return nil
}

func TestHandshake(t *testing.T) {
	const (
		legacy = `{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"s"},"instructions":"read me"}`
		modern = `{"supportedVersions":["2027-01-01","2026-07-28","2025-06-18"],"capabilities":{"tools":{}},"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"m"}}}`
		ini    = "initialize 2025-11-25"
		disc   = "server/discover 2026-07-28"
		done   = "notifications/initialized"
	)
	tests := []struct {
		name    string
		version string
		answers map[string]string
		want    string // version and server, or the error's text
		said    []string
	}{
		{"legacy", "", map[string]string{ini: legacy}, "2025-06-18 s", []string{ini, done}},
		{"legacy asked for", "2025-03-26", map[string]string{"initialize 2025-03-26": legacy}, "2025-06-18 s", []string{"initialize 2025-03-26", done}},
		{"modern only", "", map[string]string{disc: modern}, "2026-07-28 m", []string{ini, disc}},
		{"modern only, refuses over HTTP", "", map[string]string{ini: "refused", disc: modern}, "2026-07-28 m", []string{ini, disc}},
		{"modern asked for", "2026-07-28", map[string]string{ini: legacy, disc: modern}, "2026-07-28 m", []string{disc}},
		{"a future one asked for", "2031-01-01", map[string]string{disc: modern}, "2026-07-28 m", []string{disc}},
		{"modern asked for, legacy only", "2026-07-28", map[string]string{ini: legacy}, "2025-06-18 s", []string{disc, ini, done}},
		{"silent on discover", "2026-07-28", map[string]string{disc: "silence", ini: legacy}, "2025-06-18 s", []string{disc, ini, done}},
		{
			"the refusal lists an older version", "",
			map[string]string{ini: `{"code":-32602,"message":"no","data":{"supported":["2024-11-05"]}}`, "initialize 2024-11-05": strings.Replace(legacy, "2025-06-18", "2024-11-05", 1)},
			"2024-11-05 s",
			[]string{ini, "initialize 2024-11-05", done},
		},
		{"speaks nothing of ours", "", map[string]string{ini: `{"protocolVersion":"2024-10-07"}`}, `unsupported protocol version "2024-10-07"`, []string{ini, disc}},
		{"discover lists only legacy", "2026-07-28", map[string]string{disc: `{"supportedVersions":["2025-06-18"]}`, ini: legacy}, "2025-06-18 s", []string{disc, ini, done}},
		{"dead", "", map[string]string{ini: "gone"}, "gone", []string{ini}},
		{"dead, modern first", "2026-07-28", map[string]string{disc: "gone", ini: legacy}, "gone", []string{disc}},
		{"refuses everything", "", nil, "no initialize 2025-11-25 (-32601)", []string{ini, disc}},
		{"modern only, to callers that it knows", "", map[string]string{disc: "who are you"}, "needs a sign-in", []string{ini, disc}},
		{"no object", "", map[string]string{ini: `[1]`}, "the server's initialize result cannot be read", []string{ini}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := &greeter{answers: tt.answers, session: mcp.NewSession("", "")}
				began := time.Now()
				hello, err := mcp.Handshake(t.Context(), g, nil, nil, tt.version)
				got := hello.Version + " " + rawjson.Text(rawjson.Get(hello.ServerInfo, "name"))
				if err != nil {
					got = err.Error()
				}
				if !strings.HasPrefix(got, tt.want) {
					t.Errorf("got %q, want %q", got, tt.want)
				}
				if strings.Join(g.said, ",") != strings.Join(tt.said, ",") {
					t.Errorf("said %q, want %q", g.said, tt.said)
				}
				if err == nil && (g.session.Version() != hello.Version || hello.Modern != mcp.IsModern(hello.Version)) {
					t.Errorf("session %q, modern %v, hello %q", g.session.Version(), hello.Modern, hello.Version)
				}
				if err == nil && !hello.Modern && g.atInit != hello.Version {
					t.Errorf("the version was %q when the handshake ended, want %q", g.atInit, hello.Version)
				}
				if took := time.Since(began); took > 5*time.Second {
					t.Errorf("took %s", took)
				}
			})
		})
	}
}

func TestHandshakeHonoursTheCallersContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		g := &greeter{answers: map[string]string{"initialize 2025-11-25": "silence"}, session: mcp.NewSession("", "")}
		if _, err := mcp.Handshake(ctx, g, nil, nil, ""); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("err = %v, want the context's", err)
		}
		if len(g.said) != 1 {
			t.Errorf("said %q: nothing may follow once the caller has gone", g.said)
		}
	})
}
