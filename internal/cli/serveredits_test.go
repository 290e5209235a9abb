package cli

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/api"
	"github.com/weir-mcp/weir/internal/app"
)

// operate sends a request of an operator and reads the answer.
func (s *server) operate(method, path, tag, body string) (int, string) {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), method, strings.TrimSuffix(s.url, "/mcp")+api.Path+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+operatorsKey(s.t))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("If-Match", `"`+tag+`"`)
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return response.StatusCode, string(answer)
}

// TestServersAreEditedOverTheAPI adds, changes and removes a server of a running gateway. The file keeps
// its other bytes, no answer has a secret, and weir undo takes it back.
func TestServersAreEditedOverTheAPI(t *testing.T) {
	t.Parallel()
	const whole = "# mine\nmcpServers:\n  files: {command: %FAKE%} # stays\n"
	s := serve(t, whole)
	s.await("files", func(h app.Health) bool { return h.Upstreams["files"].Tools > 0 })
	edited := func(method, path, tag, body string) (e api.Edited) {
		t.Helper()
		status, answer := s.operate(method, path, tag, body)
		if err := json.Unmarshal([]byte(answer), &e); err != nil || status != 200 || e.Problem != "" {
			t.Fatalf("%s %s: %d %s", method, path, status, answer)
		}
		return e
	}
	const secret = "ghp_0123456789abcdefghijABCDEFGHIJ456789"
	pasted, err := json.Marshal(api.Addition{Text: `{"mcpServers":{"more":{"command":"` + fakeBin + `","env":{"TOKEN":"` + secret + `"}}}}`})
	if err != nil {
		t.Fatal(err)
	}
	before, _ := os.ReadFile(s.config)
	planned := edited("POST", "servers", "", `{"plan":true,`+string(pasted)[1:])
	if after, _ := os.ReadFile(s.config); string(after) != string(before) || len(planned.Adds) != 1 || planned.Adds[0].Name != "more" || planned.Operation != 0 {
		t.Fatalf("the plan is %+v, and the file\n%s", planned, after)
	}
	added := edited("POST", "servers", planned.Tag, string(pasted))
	if len(added.Servers) != 1 || added.Servers[0].Tools == 0 || added.Operation == 0 || len(added.Secrets) != 1 {
		t.Errorf("added: %+v", added)
	}
	if status, answer := s.operate("POST", "servers", planned.Tag, `{"text":"uvx other"}`); status != 409 {
		t.Errorf("with the tag of an older file: %d %s", status, answer)
	}
	_, shown := s.operate("GET", "servers/more/entry", "", "")
	now, _ := os.ReadFile(s.config)
	if strings.Contains(shown, secret) || strings.Contains(string(now), secret) || !strings.HasPrefix(string(now), string(before)) {
		t.Errorf("the entry %s, the file\n%s", shown, now)
	}
	broken := edited("PATCH", "servers/more", added.Tag, `{"change":{"command":"no-such-program-here"}}`)
	if len(broken.Servers) != 1 || broken.Servers[0].Error == "" {
		t.Errorf("with a wrong command: %+v", broken)
	}
	gone := edited("DELETE", "servers/more", broken.Tag, `{}`)
	if last, _ := os.ReadFile(s.config); len(gone.Servers) != 0 || string(last) != string(before) {
		t.Errorf("removed: %+v, the file\n%s", gone, last)
	}
	if status, answer := s.operate("DELETE", "servers/more", gone.Tag, `{}`); status != 404 {
		t.Errorf("removed again: %d %s", status, answer)
	}
}
