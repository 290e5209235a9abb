package cli

import (
	"crypto/sha256"
	"encoding/csv"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// auditLines returns the records of the log in a folder.
func auditLines(t *testing.T, dir string) (list []map[string]any) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.jsonl"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%v, %v", files, err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(data)) {
			var r map[string]any
			if err := json.Unmarshal([]byte(line), &r); err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			list = append(list, r)
		}
	}
	return list
}

// has reports whether a record has the members, given as "key=value" texts.
func has(r map[string]any, members ...string) bool {
	for _, m := range members {
		key, want, _ := strings.Cut(m, "=")
		if got, _ := r[key].(string); got != want {
			return false
		}
	}
	return true
}

// TestAudit: calls of every path are in the log, with who and what, and neither arguments nor tokens.
func TestAudit(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "audit")
	sum := sha256.Sum256([]byte("the-token-of-ann"))
	s := serve(t, oneFake+"audit: {dir: "+dir+", required: true, keep: 400d}\nfirewall: {threshold_chars: 200}\nauth: {tokens: [{name: ann, sha256: "+hex.EncodeToString(sum[:])+
		"}]}\npolicy: {rules: [{action: deny, tool: 'fail'}]}\n")
	client := httpClient(t)
	call := func(path, token, tool string, args any) (int, string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), "POST", s.base+path, strings.NewReader(string(modernCall(1, tool, args))))
		if err != nil {
			t.Fatal(err)
		}
		for key, value := range map[string]string{"Authorization": "Bearer " + token, "Content-Type": "application/json", "Accept": "application/json, text/event-stream",
			"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": tool} {
			r.Header.Set(key, value)
		}
		resp, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		var body strings.Builder
		if err := resp.Write(&body); err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, body.String()
	}
	const token = "the-token-of-ann"
	_, page := call("/mcp", token, "tool_browse", map[string]any{"query": "echo", "top_k": 5})
	id := page[strings.Index(page, "fake:echo"):]
	id = id[:strings.IndexAny(id, "\\\" \n")]
	call("/mcp", token, "tool_execute", map[string]any{"tool_id": id, "args": map[string]any{"text": "private-" + strings.Repeat("x", 400)}})
	call("/mcps/fake/mcp", token, "echo", map[string]any{"text": "private-text"})
	call("/mcp/fake/mcp", token, "refuse", map[string]any{"message": "private"})
	call("/mcps/fake/mcp", token, "fail", map[string]any{})
	if code, _ := call("/mcp", "wrong", "tool_execute", map[string]any{}); code != http.StatusUnauthorized {
		t.Errorf("a wrong token: %d", code)
	}
	if _, code := s.end(syscall.SIGTERM); code != 0 {
		t.Errorf("exit code %d", code)
	}

	list := auditLines(t, dir)
	for _, want := range [][]string{
		{"kind=config"}, {"kind=definition"},
		{"kind=begin", "principal=ann", "method=tools/call", "server=fake", "tool_id=" + id, "ip=127.0.0.1", "decision=allow", "rule=policy.default"},
		{"kind=end", "principal=ann", "tool_id=" + id, "outcome=ok"},
		{"kind=end", "principal=ann", "method=tools/call", "server=fake", "outcome=tool_error"},
		{"kind=refusal", "principal=ann", "method=tools/call", "outcome=permission_denied", "decision=deny", "rule=policy.rules[0]"},
		{"kind=refusal", "outcome=unauthorized", "ip=127.0.0.1", "detail=/mcp"},
		{"kind=stop"},
	} {
		found := 0
		for _, r := range list {
			if has(r, want...) {
				found++
			}
		}
		if found == 0 {
			t.Errorf("no record with %v", want)
		}
	}
	begun := map[string]bool{}
	for _, r := range list {
		if id, _ := r["call"].(string); r["kind"] == "begin" {
			if begun[id] = true; !strings.HasPrefix(r["args"].(string), "hmac-sha256:") {
				t.Errorf("args %v", r["args"])
			}
		} else if id != "" {
			if !begun[id] {
				t.Errorf("the end of a call without begin: %v", r)
			}
			delete(begun, id)
		}
	}
	if len(begun) > 0 {
		t.Errorf("calls without an end: %v", begun)
	}
	for _, r := range list {
		if line, _ := json.Marshal(r); strings.Contains(string(line), "private") || strings.Contains(string(line), token) {
			t.Errorf("too much is told: %s", line)
		}
	}

	if out := weir(t, "audit", "verify", dir, "--key", filepath.Join(dir, "audit.pub")); out.code != 0 || !strings.Contains(out.stdout, "is as it was written") {
		t.Errorf("verify: %+v", out)
	}
	if out := weir(t, "audit", "who", "echo", "--dir", dir); out.code != 0 || strings.Count(out.stdout, "ann") != 2 {
		t.Errorf("who: %+v", out)
	}
	if out := weir(t, "audit", "who", "ann", "--config", s.config, "--json", "--since", "1h"); out.code != 0 || !strings.Contains(out.stdout, "tool_error") {
		t.Errorf("who: %+v", out)
	}
	if out := weir(t, "audit", "tail", dir, "-n", "1", "--json"); out.code != 0 || !strings.Contains(out.stdout, `"kind":"signature"`) || strings.Count(out.stdout, "\n") != 1 {
		t.Errorf("tail: %+v", out)
	}
	if out := weir(t, "audit", "export", dir, "--csv", "--since", "1h"); out.code != 0 || !strings.HasPrefix(out.stdout, "seq,time,kind,principal,") || !strings.Contains(out.stdout, ",ann,") || strings.Contains(out.stdout, "the-token-of-ann") {
		t.Errorf("export of a table: %+v", out)
	} else if rows, err := csv.NewReader(strings.NewReader(out.stdout)).ReadAll(); err != nil || len(rows) != 1+len(auditLines(t, dir)) {
		t.Errorf("%d rows of %d records, %v", len(rows), len(auditLines(t, dir)), err)
	}
	if out := weir(t, "audit", "export", dir); out.code != 0 || strings.Count(out.stdout, "\n") != len(auditLines(t, dir)) || !strings.Contains(out.stdout, `"hash":"`) {
		t.Errorf("export of lines: %+v", out)
	}
	if out := weir(t, "audit", "export", dir, "--csv", "--jsonl"); out.code != exitUsage {
		t.Errorf("two forms: %+v", out)
	}
	if out := weir(t, "audit", "tail", dir, "-n", "1", "--ocsf"); out.code != 0 || !strings.Contains(out.stdout, `"class_uid":6003`) || strings.Count(out.stdout, "\n") != 1 {
		t.Errorf("tail of events: %+v", out)
	}
	files, _ := filepath.Glob(filepath.Join(dir, "*.jsonl"))
	data, _ := os.ReadFile(files[0])
	if err := os.WriteFile(files[0], []byte(strings.Replace(string(data), `"principal":"ann"`, `"principal":"bob"`, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if out := weir(t, "audit", "verify", dir); out.code != 1 || !strings.Contains(out.stderr, "its hash does not fit its contents") {
		t.Errorf("a changed log: %+v", out)
	}
}
