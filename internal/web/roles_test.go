package web_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// TestRoles asks each route with each role: operators see all callers, auditors the audit log, others
// their own calls alone.
func TestRoles(t *testing.T) {
	p := startProtected(t, fmt.Sprintf("audit: {dir: %q, key: \"0123456789abcdef0123456789abcdef\"}", t.TempDir()))
	as := func(user, group string) string { return p.token(user, "", "groups", []string{group}) }
	callers := map[string]string{
		"operator by group": as("sre1", "sre"), "operator by token": operatorToken, "auditor": as("aud1", "audit"),
		"both": p.token("both1", "", "groups", []string{"sre", "audit"}), "caller": as("dev1", "dev"), "static": staticToken, "stranger": "",
	}
	// These sessions belong to two other callers. A caller who sees both sees all callers.
	for _, user := range []string{"u1", "u2"} {
		p.asks("/mcp", p.token(user, ""))("tools/list", `{}`)
		p.asks("/mcp", p.token(user, ""))("tools/call", `{"name":"tool_browse","arguments":{"query":"echo"}}`)
	}
	everybody := map[string]bool{"operator by group": true, "operator by token": true, "both": true}
	status := func(of map[string]int, otherwise int, name string) int {
		if want, ok := of[name]; ok {
			return want
		}
		if name == "stranger" {
			return 401
		}
		return otherwise
	}
	operates := map[string]int{"operator by group": 200, "operator by token": 200, "both": 200}
	audits := map[string]int{"operator by group": 200, "operator by token": 200, "both": 200, "auditor": 200}
	for name, token := range callers {
		for _, route := range []struct {
			path   string
			want   int
			shared bool // it tells operators of the sessions of others
		}{
			{"/stats", status(nil, 200, name), true},
			{"/api/v1/overview", status(nil, 200, name), true},
			{"/api/v1/calls/stream", status(nil, 200, name), false},
			{"/api/v1/figures", status(nil, 200, name), false},
			{"/api/v1/codes", status(map[string]int{"operator by group": 405, "operator by token": 405, "both": 405}, 403, name), false},
			{"/api/v1/audit", status(audits, 403, name), false},
			{"/api/v1/servers", status(operates, 403, name), false},
			{"/api/v1/approvals", status(operates, 403, name), false},
			{"/api/v1/logs", status(operates, 403, name), false},
			{"/catalog", status(nil, 200, name), false},
		} {
			method := "GET"
			if strings.HasSuffix(route.path, "stream") {
				method = "HEAD"
			}
			resp, body := p.do(method, route.path, token, "")
			if resp.StatusCode != route.want {
				t.Errorf("%s as %s: %d %.300s", route.path, name, resp.StatusCode, body)
				continue
			}
			if !route.shared || resp.StatusCode != 200 {
				continue
			}
			var seen struct {
				Sessions []struct{ Principal string }
				Usage    struct {
					Own      bool
					Sessions int
				}
			}
			if err := json.Unmarshal([]byte(body), &seen); err != nil {
				t.Fatalf("%s: %v", body, err)
			}
			// Both users have two sessions; the callers of the table have none.
			if n := len(seen.Sessions) + seen.Usage.Sessions; n != map[bool]int{true: 4}[everybody[name]] || route.path != "/stats" && seen.Usage.Own == everybody[name] {
				t.Errorf("%s as %s: %s", route.path, name, body)
			}
		}
	}
	// What only reads does not change: an auditor's role opens no other method.
	for _, method := range []string{"POST", "PUT", "DELETE"} {
		if resp, _ := p.do(method, "/api/v1/audit", callers["auditor"], "{}"); resp.StatusCode != 405 {
			t.Errorf("%s of the audit log: %d", method, resp.StatusCode)
		}
	}
}

// TestOfficesOfRoles: the members of the hub, which are of all principals, are for operators alone.
func TestOfficesOfRoles(t *testing.T) {
	p := startProtected(t, "hub: {office: home}")
	members := func(token string) bool {
		resp, body := p.do("GET", "/api/v1/offices", token, "")
		if resp.StatusCode != 200 || !strings.Contains(body, `"hub":true`) {
			t.Fatalf("%d %s", resp.StatusCode, body)
		}
		return !strings.Contains(body, `"connections":0`)
	}
	for !members(operatorToken) { // the gateway's own agent connects
		if t.Context().Err() != nil {
			t.Fatal(t.Context().Err())
		}
	}
	if members(staticToken) {
		t.Error("a caller sees the members of the hub")
	}
}

// TestEventsOfOthers: the feed of live calls has the calls of all callers for operators, and for
// others their own.
func TestEventsOfOthers(t *testing.T) {
	p := startProtected(t)
	open := func(token string) *bufio.Reader {
		in := openStream(t, p, "/api/v1/calls/stream", token)
		if line, err := in.ReadString('\n'); err != nil || !strings.HasPrefix(line, "retry") { // it watches from now on
			t.Fatal(line, err)
		}
		return in
	}
	operator, own := open(p.token("sre1", "", "groups", []string{"sre"})), open(p.token("u2", ""))
	for _, user := range []string{"u1", "u2"} {
		p.asks("/mcp", p.token(user, ""))("tools/call", `{"name":"tool_browse","arguments":{"query":"echo"}}`)
	}
	next := func(in *bufio.Reader) string {
		var e struct{ Principal string }
		for e.Principal == "" { // events of no caller are for every viewer
			if err := json.Unmarshal([]byte(nextEvent(t, in)), &e); err != nil {
				t.Fatal(err)
			}
		}
		return e.Principal
	}
	if a, b := next(operator), next(operator); a != "corp:u1" || b != "corp:u2" {
		t.Errorf("an operator sees calls of %s and %s", a, b)
	}
	if got := next(own); got != "corp:u2" {
		t.Errorf("another caller sees a call of %s", got)
	}
}

// TestAuditOverHTTP: an auditor pages through the records, and its reads are records themselves.
func TestAuditOverHTTP(t *testing.T) {
	p := startProtected(t, fmt.Sprintf("audit: {dir: %q, key: \"0123456789abcdef0123456789abcdef\"}", t.TempDir()))
	ask := p.asks("/mcps/up/mcp", p.token("u1", ""))
	for range 3 {
		if _, body := ask("tools/call", `{"name":"echo","arguments":{"text":"hello"}}`); !strings.Contains(body, "hello") {
			t.Fatal(body)
		}
	}
	auditor := p.token("aud1", "", "groups", []string{"audit"})
	type record struct {
		Seq                           uint64
		Kind, Principal, Server, Tool string
		Detail                        string
	}
	read := func(query string) (records []record, older, newer uint64) {
		t.Helper()
		resp, body := p.do("GET", "/api/v1/audit?"+query, auditor, "")
		var page struct {
			Records      []record
			Older, Newer uint64
		}
		if err := json.Unmarshal([]byte(body), &page); err != nil || resp.StatusCode != 200 {
			t.Fatalf("%s: %d %s %v", query, resp.StatusCode, body, err)
		}
		return page.Records, page.Older, page.Newer
	}
	var seen []record
	for n := 0; len(seen) < 6; n++ { // the log writes in the background
		if seen, _, _ = read("principal=corp:u1&server=up&tool=up:echo"); n > 1000 {
			t.Fatalf("%+v", seen)
		}
	}
	for i, r := range seen {
		if want := []string{"begin", "end"}[i%2]; len(seen) != 6 || r.Kind != want || i > 0 && r.Seq <= seen[i-1].Seq {
			t.Errorf("%+v", seen)
			break
		}
	}
	// Page by page, from both ends.
	var back []uint64
	for before := "limit=1"; ; {
		list, older, _ := read("kind=begin&" + before)
		for _, r := range list {
			back = append([]uint64{r.Seq}, back...)
		}
		if older == 0 {
			break
		}
		before = fmt.Sprintf("limit=1&before=%d", older)
	}
	var forth []uint64
	for after := uint64(0); ; {
		list, _, newer := read(fmt.Sprintf("kind=begin&limit=2&after=%d", after))
		for _, r := range list {
			forth = append(forth, r.Seq)
		}
		if len(list) == 0 {
			break
		}
		after = newer
	}
	if fmt.Sprint(back) != fmt.Sprint(forth) || len(back) != 3 {
		t.Errorf("backward %v, forward %v", back, forth)
	}
	var own []record
	for n := 0; len(own) == 0 && n < 1000; n++ {
		own, _, _ = read("kind=role&principal=corp:aud1")
	}
	if len(own) == 0 || !strings.Contains(own[0].Detail, "reads the audit log") {
		t.Errorf("the reads are recorded as %+v", own)
	}
	for _, query := range []string{"limit=0", "limit=1001", "before=x", "after=1&before=2", "since=today", "kind=calls", "principle=x", "kind=end&kind=begin"} {
		if resp, body := p.do("GET", "/api/v1/audit?"+query, auditor, ""); resp.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: %d %s", query, resp.StatusCode, body)
		}
	}
}

// TestNoAuditLog: without a log there is nothing to read, and the answer says what to set.
func TestNoAuditLog(t *testing.T) {
	p := startProtected(t)
	if resp, body := p.do("GET", "/api/v1/audit", operatorToken, ""); resp.StatusCode != 404 || !strings.Contains(body, "audit.dir") {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
}
