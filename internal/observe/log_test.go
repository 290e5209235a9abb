package observe

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/catalog/primitive"
	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/observe/metrics"
	"github.com/weir-mcp/weir/internal/observe/telemetry"
	"github.com/weir-mcp/weir/internal/passthrough"
	"github.com/weir-mcp/weir/internal/result"
	"github.com/weir-mcp/weir/internal/result/usage"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/jsonrpc"
)

func parsed(t *testing.T, text string) *config.Config {
	t.Helper()
	c, _, err := config.Parse("weir.yaml", []byte("mcpServers: {}\n"+text), config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestLogFollows: level and secrets are those of the configuration that was applied last, and tokens in use are
// removed as well.
func TestLogFollows(t *testing.T) {
	var out bytes.Buffer
	first := parsed(t, "log: {format: json}\n")
	log := NewLog(&out, first)
	log.Tokens().Add("token-of-a-sign-in")
	log.Debug("hidden by the level")
	log.Info("token-of-a-sign-in is used")
	if text := out.String(); strings.Contains(text, "hidden by the level") || strings.Contains(text, "token-of-a-sign-in") || !json.Valid([]byte(text)) {
		t.Errorf("the log is %s", text)
	}
	out.Reset()
	log.Apply(parsed(t, "log: {level: debug, unredacted: true}\n"))
	log.Debug("shown now")
	log.Info("token-of-a-sign-in is used")
	if text := out.String(); !strings.Contains(text, "shown now") || !strings.Contains(text, "token-of-a-sign-in") {
		t.Errorf("after the change: %s", text)
	}
	if got := log.Clean("a\u200bb"); strings.Contains(got, "\u200b") {
		t.Errorf("%q has an invisible character", got)
	}
}

// TestObserver: an event of a call at /mcps has the configured name of the server, the id of a tool that the
// catalog has, and the code with which the gateway would answer.
func TestObserver(t *testing.T) {
	c, _ := catalog.New(catalog.Limits{}).With(primitive.Listing{Upstream: "desk-files", Namespace: "files", Tools: []json.RawMessage{json.RawMessage(`{"name":"read","inputSchema":{"type":"object"}}`)}})
	var events []telemetry.Event
	o := &Observer{
		Metrics: metrics.NewMetrics(metrics.Totals{}), Tell: func(e telemetry.Event) { events = append(events, e) },
		Server: func(string) string { return "desk-files" }, Catalog: func() *catalog.Catalog { return c },
	}
	began := time.Now()
	o.Called(passthrough.Call{Upstream: "desk.files", Method: "tools/call", Tool: "read", Session: "s1", Began: began, Took: time.Second})
	o.Called(passthrough.Call{Upstream: "desk.files", Method: "tools/call", Tool: "invented", Began: began, Err: mcp.Errorf(mcp.KindOverloaded, "full")})
	if len(events) != 2 {
		t.Fatalf("%d events", len(events))
	}
	good, bad := events[0], events[1]
	if good.Name != telemetry.PassthroughCompleted || good.Upstream != "desk-files" || !strings.HasPrefix(good.ToolID, "files:read") || good.Session == "s1" || good.Session == "" || !good.Time.Equal(began.Add(time.Second)) {
		t.Errorf("%+v", good)
	}
	if bad.Name != telemetry.PassthroughFailed || bad.ToolID != "" || bad.Code == "" {
		t.Errorf("%+v", bad)
	}
	for want, err := range map[string]error{
		string(result.UpstreamError):   &jsonrpc.Error{Code: -32000, Message: "no"},
		string(result.UpstreamTimeout): &result.Error{Code: result.UpstreamTimeout},
	} {
		if got := codeOf(errors.Join(err)); got != want {
			t.Errorf("%v has the code %s, want %s", err, got, want)
		}
	}
}

// TestAddUsage: a session that two nodes have served is one row, and the sums are those of both.
func TestAddUsage(t *testing.T) {
	row := func(session string, calls int64) usage.SessionUsage {
		r := usage.SessionUsage{Session: session, Principal: "ann"}
		r.Calls = calls
		return r
	}
	old := time.Unix(1000, 0)
	to := usage.Stats{Since: time.Unix(2000, 0), Sessions: []usage.SessionUsage{row("a", 1), row("b", 2)}}
	add(&to, usage.Stats{Since: old, Sessions: []usage.SessionUsage{row("b", 3), row("c", 4)}})
	var got []int64
	for _, s := range to.Sessions {
		got = append(got, s.Calls)
	}
	if len(got) != 3 || got[0] != 1 || got[1] != 5 || got[2] != 4 || !to.Since.Equal(old) {
		t.Errorf("%v since %v", got, to.Since)
	}
}
