package metatool

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/audit"
	"github.com/weir-mcp/weir/internal/audit/calls"
	"github.com/weir-mcp/weir/internal/dispatch"
	"github.com/weir-mcp/weir/internal/testkit/calltest"
	"github.com/weir-mcp/weir/mcp"
)

func TestAuditOfCalls(t *testing.T) {
	l, to, dir := calltest.NewAudit(t, audit.FormFull, false)
	h := newHarness(t, Options{
		Audit: to, Cache: dispatch.CacheOptions{ReadOnly: true, TTL: time.Minute, MaxEntries: 8, MaxBytes: 1 << 20},
		Policy: &dispatch.Policy{Rules: []dispatch.PolicyRule{{Action: dispatch.Deny, Tool: "drop"}}},
	})
	read := h.ID(t, "files", "read_file")
	execute := func(id, args string) calltest.Answer {
		return h.Tool(t, ToolExecute, fmt.Sprintf(`{"tool_id":%q,"args":%s}`, id, args))
	}
	execute(read, `{"path":"a"}`)
	execute(read, `{"path":"a"}`) // from the cache
	execute(h.ID(t, "files", "drop"), `{}`)
	execute(read, `{"limit":"wrong"}`) // reaches no server
	h.Add("web", calltest.Fail(mcp.Errorf(mcp.KindUpstreamTimeout, "late")), `{"name":"search","inputSchema":{"type":"object"}}`)
	execute(h.ID(t, "web", "search"), `{}`)
	h.Add("web", calltest.Say(`{"content":[],"isError":true}`), `{"name":"search","inputSchema":{"type":"object"}}`)
	execute(h.ID(t, "web", "search"), `{}`)
	h.Add("web", calltest.Say(calltest.Text(strings.Repeat("long words. ", 3000))), `{"name":"search","inputSchema":{"type":"object"}}`)
	held := execute(h.ID(t, "web", "search"), `{}`)
	handle := held.Content[0].Text[strings.Index(held.Content[0].Text, "art_"):]
	handle = handle[:strings.IndexAny(handle, "\" \n\\,.)")]
	h.Tool(t, ToolView, fmt.Sprintf(`{"handle":%q,"selector":{"type":"head","chars":20}}`, handle))
	h.Tool(t, ToolBrowse, `{"query":"search"}`) // only looks

	want := []string{
		`begin tools/call files allow {"path":"a"}`, `end tools/call files ok digest`,
		`end tools/call files allow cached {"path":"a"} digest`,
		`refusal tools/call files deny permission_denied {}`,
		`begin tools/call web allow {}`, `end tools/call web upstream_timeout`,
		`begin tools/call web allow {}`, `end tools/call web tool_error digest`,
		`begin tools/call web allow {}`, `end tools/call web ok digest`,
		`view tool_view ok {"chars":20,"type":"head"} digest`,
	}
	if got := calltest.Recorded(t, l, dir); strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("the log has\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestAuditUnavailable: a required log that cannot be written keeps calls from servers; another log
// does not.
func TestAuditUnavailable(t *testing.T) {
	for _, required := range []bool{false, true} {
		l, to, _ := calltest.NewAudit(t, audit.FormHash, required)
		h := newHarness(t, Options{Audit: to})
		l.Close()
		s := h.Tool(t, ToolExecute, fmt.Sprintf(`{"tool_id":%q,"args":{"path":"a"}}`, h.ID(t, "files", "read_file")))
		if s.IsError != required || (len(h.Called()) == 0) != required {
			t.Errorf("required %v: %+v, %v", required, s, h.Called())
		}
		if required {
			if e := calltest.Failure(t, s); !strings.Contains(e.Message, "audit.required") || !*e.Retryable {
				t.Errorf("%+v", e)
			}
		}
	}
}

// BenchmarkExecuteAudit measures what the audit log costs a call of a tool. x_hop is the time of a
// call with the log, as a multiple of a call without it in the same run; required_ms is the median
// of a call that waits for the disk.
func BenchmarkExecuteAudit(b *testing.B) {
	session := mcp.NewSession("s", "ann")
	measure := func(b *testing.B, to *calls.Recorder, n int) (each []time.Duration) {
		g, u := benchGateway(b, 500, calltest.Text(strings.Repeat("some words. ", 158)))
		if to != nil {
			opts := g.opts
			opts.Audit, opts.State = to, nil
			g = New(opts)
		}
		r := &mcp.Request{ID: "1", Method: "tools/call", Version: mcp.V20251125, Session: session, Peer: mcp.NoPeer,
			Params: json.RawMessage(`{"name":"tool_execute","arguments":{"tool_id":"` + u.snapshot.Catalog.Entries()[7].ID + `","args":{"id":"12345","project":"the quick brown fox jumps over the lazy dog"}}}`)}
		for range n {
			start := time.Now()
			if _, err := g.Serve(b.Context(), r); err != nil {
				b.Fatal(err)
			}
			each = append(each, time.Since(start))
		}
		return each
	}
	_, hashed, _ := calltest.NewAudit(b, audit.FormHash, false)
	_, required, _ := calltest.NewAudit(b, audit.FormHash, true)
	var plain, logged time.Duration
	rounds := 0
	for b.Loop() {
		rounds++
		plain += median(measure(b, nil, 300))
		logged += median(measure(b, hashed, 300))
	}
	b.ReportMetric(float64(plain)/float64(rounds)/1e3, "plain_µs")
	b.ReportMetric(float64(logged-plain)/float64(rounds)/1e3, "audit_µs")
	b.ReportMetric(float64(logged)/float64(max(plain, 1)), "x_execute")
	b.ReportMetric(float64(median(measure(b, required, 50)))/1e6, "required_ms")
}

func median(list []time.Duration) time.Duration {
	sorted := slices.Sorted(slices.Values(list))
	return sorted[len(sorted)/2]
}

// TestAuditOfLinks: the log does not have the URI of a resource that no list has, because links are
// often signed.
func TestAuditOfLinks(t *testing.T) {
	const secret = "memo://r/1?X-Amz-Signature=hunter2"
	l, to, dir := calltest.NewAudit(t, audit.FormHash, false)
	h, of := linkers(t, Options{Audit: to}, map[string]string{"a": linkTo(secret)})
	of["a"].has(secret, "from a")
	h.find(t, "a")
	if s := h.readURI(t, secret); s.IsError {
		t.Fatalf("%+v", s)
	}
	if got := calltest.Recorded(t, l, dir); len(got) != 4 || !strings.HasPrefix(got[2], "begin resources/read a ") {
		t.Errorf("%q", got)
	}
	if err := audit.Each(dir, func(raw []byte) bool {
		if strings.Contains(string(raw), "hunter2") {
			t.Errorf("%s", raw)
		}
		return true
	}); err != nil {
		t.Fatal(err)
	}
}

// TestAuditOfViews: a record of a view has its selector and digest as audit.args says.
func TestAuditOfViews(t *testing.T) {
	selector := []byte(`{"type":"search","query":"hunter2"}`)
	for form, want := range map[audit.Form]string{
		audit.FormNone:     `view tool_view ok`,
		audit.FormHash:     `view tool_view ok "hmac-sha256:`,
		audit.FormRedacted: `view tool_view ok {"query":"[secret]","type":"search"} digest`,
		audit.FormFull:     `view tool_view ok {"query":"hunter2","type":"search"} digest`,
	} {
		l, _, dir := calltest.NewAudit(t, form, false)
		to := calls.New(l, form, func(b []byte) []byte { return []byte(strings.ReplaceAll(string(b), "hunter2", "[secret]")) })
		to.Viewed(t.Context(), &calls.Call{Method: ToolView}, "art_1", selector, []byte("shown"))
		got := calltest.Recorded(t, l, dir)
		if len(got) != 1 || !strings.HasPrefix(got[0], want) || form == audit.FormNone && got[0] != want {
			t.Errorf("%s: %q", form, got)
		}
		if form == audit.FormHash && (strings.Contains(got[0], "hunter2") || !strings.HasSuffix(got[0], " digest")) {
			t.Errorf("%s: %q", form, got)
		}
	}
}
