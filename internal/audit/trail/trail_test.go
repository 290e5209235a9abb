package trail

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-mcp/weir/internal/audit"
	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/catalog/primitive"
	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/observe/telemetry"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/jsonrpc"
)

// recording is an Auditor with a log of its own, whose records read returns.
type recording struct {
	*Auditor
	t   *testing.T
	dir string
}

func record(t *testing.T) *recording {
	t.Helper()
	keys, err := audit.KeysFrom(strings.Repeat("k", 32))
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "audit")
	log, err := audit.Open(audit.Options{Dir: dir, Keys: keys})
	if err != nil {
		t.Fatal(err)
	}
	c, _ := catalog.New(catalog.Limits{}).With(primitive.Listing{Upstream: "desk-files", Namespace: "files", Tools: []json.RawMessage{json.RawMessage(`{"name":"read","inputSchema":{"type":"object"}}`)}})
	return &recording{t: t, dir: dir, Auditor: New(log, &config.Config{}, Needs{
		Redact:  func(raw []byte) []byte { return raw },
		Server:  func(name string) string { return strings.Replace(name, "desk.", "desk-", 1) },
		Catalog: func(context.Context) *catalog.Catalog { return c },
	})}
}

// read closes the log and returns the records of a kind, each as its members.
func (r *recording) read(kind audit.Kind) (all []map[string]any) {
	r.t.Helper()
	r.Close()
	if err := audit.Each(r.dir, func(raw []byte) bool {
		if rawjson.Text(rawjson.Get(raw, "kind")) == string(kind) {
			one := map[string]any{}
			if err := json.Unmarshal(raw, &one); err != nil {
				r.t.Error(err)
			}
			all = append(all, one)
		}
		return true
	}); err != nil {
		r.t.Fatal(err)
	}
	return all
}

func request(method, params string) *mcp.Request {
	return &mcp.Request{ID: jsonrpc.ID("1"), Method: method, Params: json.RawMessage(params), Session: mcp.NewSession("", "ann")}
}

// TestBegin: a call is recorded under the configured name of its server and with the id that its tool has in
// the catalog. Requests that only look are not recorded.
func TestBegin(t *testing.T) {
	r := record(t)
	ctx := t.Context()
	for _, method := range unaudited {
		if open, err := r.Begin(ctx, "desk.files", request(method, `{}`)); open != nil || err != nil {
			t.Errorf("%s: %v, %v", method, open, err)
		}
	}
	for _, params := range []string{`{"name":"read","arguments":{}}`, `{"name":"other"}`} {
		open, err := r.Begin(ctx, "desk.files", request("tools/call", params))
		if err != nil {
			t.Fatal(err)
		}
		open.Ended(json.RawMessage(`{"isError":true}`), nil)
	}
	var ids, outcomes []string
	for _, one := range append(r.read(audit.Begin), r.read(audit.End)...) {
		if server, there := one["server"]; there && server != "desk-files" {
			t.Errorf("the server is %v", server)
		}
		if id, ok := one["tool_id"].(string); ok {
			ids = append(ids, id)
		}
		if outcome, ok := one["outcome"].(string); ok {
			outcomes = append(outcomes, outcome)
		}
	}
	text := strings.Join(ids, " ")
	if !strings.Contains(text, "files:read") || !strings.Contains(text, "desk.files:other") {
		t.Errorf("the tools are %q", text)
	}
	if !strings.Contains(strings.Join(outcomes, " "), "tool_error") {
		t.Errorf("the outcomes are %q", outcomes)
	}
}

// TestBeginRefusesTwoReadings: params in which a server could read another name than the log are refused.
func TestBeginRefusesTwoReadings(t *testing.T) {
	r := record(t)
	defer r.Close()
	for method, params := range map[string]string{
		"tools/call":     `{"name":"read","name":"write"}`,
		"prompts/get":    `{"name":"a","Name":"b"}`,
		"resources/read": `{"uri":"a:1","URI":"a:2"}`,
	} {
		if _, err := r.Begin(t.Context(), "files", request(method, params)); err == nil {
			t.Errorf("%s %s is recorded", method, params)
		} else if kind, _ := mcp.KindOf(err); kind != mcp.KindInvalidParams {
			t.Errorf("%s: %v", method, err)
		}
	}
}

// TestRefusalsAreBounded: a flood of refused requests leaves a burst of records, and the number of the others.
func TestRefusalsAreBounded(t *testing.T) {
	r := record(t)
	synctest.Test(t, func(t *testing.T) {
		refuse := func(n int) {
			for range n {
				q := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/mcp", nil)
				r.Refused(q, http.StatusUnauthorized, mcp.Errorf(mcp.KindPermissionDenied, "no token"))
			}
		}
		refuse(refusalBurst + 40)
		time.Sleep(time.Second)
		refuse(3)
	})
	all := r.read(audit.Refusal)
	counted := 0.0
	for _, one := range all {
		if n, ok := one["count"].(float64); ok {
			counted += n
		}
	}
	if len(all) != refusalBurst+2 || counted != 42 {
		t.Errorf("%d records, which count %v others", len(all), counted)
	}
}

// TestOtherRecords: decisions, configurations and changes of definitions are recorded, and other events are not.
func TestOtherRecords(t *testing.T) {
	r := record(t)
	r.Operated(t.Context(), audit.Approval, "approved", "files", "files:read", "by ann")
	r.Event(telemetry.Event{Name: telemetry.ExecuteCompleted})
	r.Event(telemetry.Event{Name: telemetry.CatalogRefresh, Upstream: "files", Hash: "h1", Detail: "read has changed"})
	r.Offered(t.Context(), "handle-1", "http://127.0.0.1/s2sp/data/very-secret")
	if all := r.read(audit.Definition); len(all) != 1 || all[0]["result"] != "catalog:h1" {
		t.Errorf("definitions: %v", all)
	}
	for kind, want := range map[audit.Kind]string{audit.Approval: "approved", audit.View: "handle-1"} {
		all := r.read(kind)
		text, err := json.Marshal(all)
		if err != nil || len(all) != 1 || !strings.Contains(string(text), want) || strings.Contains(string(text), "very-secret") {
			t.Errorf("%s: %s, %v", kind, text, err)
		}
	}
}

// TestWithoutALog: an Auditor without a log lets everything pass and records nothing.
func TestWithoutALog(t *testing.T) {
	a := New(nil, &config.Config{}, Needs{})
	open, err := a.Begin(t.Context(), "files", request("tools/call", `{"name":"x"}`))
	if open != nil || err != nil || a.Enabled() || a.Calls() != nil {
		t.Errorf("%v, %v, enabled %v", open, err, a.Enabled())
	}
	a.Operated(t.Context(), audit.Role, "", "", "", "")
	a.Close()
}
