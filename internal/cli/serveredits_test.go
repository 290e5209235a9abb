package cli

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/gateway"
	"github.com/weir-mcp/weir/internal/host/place"
	"github.com/weir-mcp/weir/internal/web/api"
)

// operate sends a request of an operator and reads the answer.
func (s *server) operate(method, path, tag, body string) (int, string) {
	s.t.Helper()
	return s.operateAs(operatorsKey(s.t), method, path, tag, body)
}

// operateAs is operate with a bearer token.
func (s *server) operateAs(bearer, method, path, tag, body string) (int, string) {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), method, strings.TrimSuffix(s.url, "/mcp")+api.Path+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+bearer)
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
	s.await("files", func(h gateway.Health) bool { return h.Upstreams["files"].Tools > 0 })
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
	if status, answer := s.operate("POST", "servers", planned.Tag, `{"text":"uvx other"}`); status != 409 || !strings.Contains(answer, "look at it again") {
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

// serveHome starts a gateway in a home, and returns it with the operator's key of its user.
func serveHome(t *testing.T, h *aHome, config string) (*server, string) {
	t.Helper()
	path := writeConfig(t, "weir.yaml", config)
	s := startWith(t, slices.DeleteFunc(slices.Clone(h.env), func(v string) bool { return v[0] == '@' }), path, "serve", "--config", path, "--listen", "127.0.0.1:0")
	state, err := filepath.Glob(filepath.Join(h.dir, "*", "*", "weir", place.OperatorKey))
	if more, _ := filepath.Glob(filepath.Join(h.dir, "*", "*", "*", "weir", place.OperatorKey)); err == nil {
		state = append(state, more...)
	}
	if len(state) != 1 {
		t.Fatalf("the keys in %s: %q, %v", h.dir, state, err)
	}
	key, err := place.ReadKey(state[0])
	if err != nil {
		t.Fatal(err)
	}
	return s, key
}

// annsToken is the token of an operator who is not the user of the gateway.
const annsToken = "0123456789-token-of-ann"

func withAnn() string {
	return fmt.Sprintf("auth: {tokens: [{name: ann, operator: true, sha256: %x}]}\n", sha256.Sum256([]byte(annsToken)))
}

// TestUndoOverTheAPI takes back changes by their numbers. The user of the gateway takes back changes of
// clients' files as well; an operator with a token takes back changes of the configuration alone.
func TestUndoOverTheAPI(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	s, key := serveHome(t, h, "# mine\nmcpServers: {}\n"+withAnn())
	before, _ := os.ReadFile(s.config)
	edited := func(bearer, method, path, tag, body string) (e api.Edited) {
		t.Helper()
		status, answer := s.operateAs(bearer, method, path, tag, body)
		if err := json.Unmarshal([]byte(answer), &e); err != nil || status != 200 || e.Problem != "" {
			t.Fatalf("%s %s: %d %s", method, path, status, answer)
		}
		return e
	}
	planned := edited(annsToken, "POST", "servers", "", `{"plan":true,"text":"`+fakeBin+`"}`)
	added := edited(annsToken, "POST", "servers", planned.Tag, `{"name":"one","text":"`+fakeBin+`"}`)
	undone := edited(annsToken, "POST", fmt.Sprintf("operations/%d/undo", added.Operation), "", `{}`)
	if now, _ := os.ReadFile(s.config); string(now) != string(before) || undone.Tag != planned.Tag || len(undone.Servers) != 0 {
		t.Errorf("undone: %+v, the file\n%s", undone, now)
	}
	again := edited(annsToken, "POST", fmt.Sprintf("operations/%d/undo", undone.Operation), "", `{}`)
	if len(again.Servers) != 1 || again.Servers[0].Name != "one" || again.Servers[0].Tools == 0 {
		t.Errorf("the undo of the undo: %+v", again)
	}
	mine := theirs(h.files(t))
	done := decode[struct{ Done int }](t, h.weir(t, "connect", "cursor", "--yes", "--json").want(t, exitOK).stdout)
	for _, one := range []struct {
		bearer, n string
		want      int
	}{{annsToken, fmt.Sprint(done.Done), 403}, {key, fmt.Sprint(done.Done), 200}, {key, fmt.Sprint(done.Done), 404}, {key, "99", 404}, {key, "0", 400}, {key, "x", 400}} {
		if status, answer := s.operateAs(one.bearer, "POST", "operations/"+one.n+"/undo", "", `{}`); status != one.want {
			t.Errorf("undo of %s: %d, want %d: %s", one.n, status, one.want, answer)
		}
	}
	sameFiles(t, "after the undo", theirs(h.files(t)), mine)
}

// TestChangesThatFailLaterOverTheAPI: a change that is made, and of which a later step fails, is answered
// as made, with the error and the number that takes it back. The audit log has it.
func TestChangesThatFailLaterOverTheAPI(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	log := filepath.Join(t.TempDir(), "audit")
	s, key := serveHome(t, h, "mcpServers: {}\naudit: {dir: "+log+"}\n")
	before, _ := os.ReadFile(s.config)
	edited := func(method, path, tag, body string) (e api.Edited) {
		t.Helper()
		status, answer := s.operateAs(key, method, path, tag, body)
		if err := json.Unmarshal([]byte(answer), &e); err != nil || status != 200 {
			t.Fatalf("%s %s: %d %s", method, path, status, answer)
		}
		return e
	}
	pasted, err := json.Marshal(api.Addition{Text: `{"mcpServers":{"more":{"command":"` + fakeBin + `","env":{"TOKEN":"ghp_0123456789abcdefghijABCDEFGHIJ456789"}}}}`})
	if err != nil {
		t.Fatal(err)
	}
	planned := edited("POST", "servers", "", `{"plan":true,`+string(pasted)[1:])
	added := edited("POST", "servers", planned.Tag, string(pasted))
	stores, err := filepath.Glob(filepath.Join(h.dir, "*", "*", "secrets.yaml"))
	if more, _ := filepath.Glob(filepath.Join(h.dir, "*", "*", "*", "secrets.yaml")); err == nil {
		stores = append(stores, more...)
	}
	if len(stores) != 1 || added.Failed != "" {
		t.Fatalf("added %+v, with the stores %q", added, stores)
	}
	if err := os.WriteFile(stores[0], []byte("{"), 0o600); err != nil { // the undo cannot remove the secret
		t.Fatal(err)
	}
	undone := edited("POST", fmt.Sprintf("operations/%d/undo", added.Operation), "", `{}`)
	if now, _ := os.ReadFile(s.config); string(now) != string(before) || undone.Failed == "" || undone.Tag != planned.Tag {
		t.Errorf("undone: %+v, the file\n%s", undone, now)
	}
	want := fmt.Sprintf("takes back operation %d; a later step failed: ", added.Operation)
	deadline := time.Now().Add(30 * time.Second)
	for {
		segments, _ := filepath.Glob(filepath.Join(log, "*"))
		var all []byte
		for _, segment := range segments {
			data, _ := os.ReadFile(segment)
			all = append(all, data...)
		}
		if strings.Contains(string(all), want) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the audit log has no record %q:\n%s", want, all)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// TestRegistryOverTheAPI searches the registry, reads what a server needs, and adds it. Texts of the
// registry come as they are, and the secret goes into the store.
func TestRegistryOverTheAPI(t *testing.T) {
	t.Parallel()
	needsShell(t)
	const hostile = "<script>alert(1)</script>"
	server := `{"name":"io.github.me/echo","description":"says it again ` + hostile + `","version":"1.0.0","packages":[{"registryType":"npm","identifier":"echo-mcp",` +
		`"version":"1.0.0","transport":{"type":"stdio"},"environmentVariables":[{"name":"ECHO_TOKEN","description":"` + hostile + `","isRequired":true,"isSecret":true}]}]}`
	var mu sync.Mutex // guards server
	registry := registryOf(t, func() string {
		mu.Lock()
		defer mu.Unlock()
		return server
	})
	h := newHome(t)
	h.installed(t, "npx")
	s, key := serveHome(t, h, "mcpServers: {}\nregistry: {url: "+registry.URL+"}\n")
	status, answer := s.operateAs(key, "GET", "registry?query=say+again", "", "")
	var found api.Published
	if err := json.Unmarshal([]byte(answer), &found); err != nil || status != 200 || len(found.Servers) != 1 || found.Servers[0].ID != "io.github.me/echo" || !strings.Contains(found.Servers[0].Description, hostile) {
		t.Fatalf("found: %d %s", status, answer)
	}
	for _, query := range []string{"", "query=+", "query=" + strings.Repeat("x", 201)} {
		if status, answer := s.operateAs(key, "GET", "registry?"+query, "", ""); status != 400 {
			t.Errorf("%.20q: %d %s", query, status, answer)
		}
	}
	var planned, added api.Edited
	status, answer = s.operateAs(key, "POST", "servers", "", `{"plan":true,"published":"io.github.me/echo"}`)
	if err := json.Unmarshal([]byte(answer), &planned); err != nil || status != 200 || len(planned.Questions) != 1 || !planned.Questions[0].Secret || !planned.Questions[0].Needed || len(planned.Adds) != 0 {
		t.Fatalf("the plan: %d %s", status, answer)
	}
	if status, answer = s.operateAs(key, "POST", "servers", planned.Tag, `{"published":"io.github.me/echo"}`); status != 400 || !strings.Contains(answer, "ECHO_TOKEN") {
		t.Errorf("without its answer: %d %s", status, answer)
	}
	if status, answer = s.operateAs(key, "POST", "servers", planned.Tag, `{"published":"io.github.me/nothing"}`); status != 404 {
		t.Errorf("of no such server: %d %s", status, answer)
	}
	const answered = `"published":"io.github.me/echo","answers":{"ECHO_TOKEN":"abcdefgh12345678"}}`
	mu.Lock()
	first := server
	server = strings.ReplaceAll(server, "1.0.0", "1.0.1") // published after the plan was shown
	mu.Unlock()
	file, _, _ := strings.Cut(planned.Tag, ".")
	for _, tag := range []string{planned.Tag, file} {
		if status, answer = s.operateAs(key, "POST", "servers", tag, `{`+answered); status != 409 || !strings.Contains(answer, "plan it again") {
			t.Errorf("a version that no plan showed, with the tag %q: %d %s", tag, status, answer)
		}
	}
	if status, answer = s.operateAs(key, "POST", "servers", "", `{"plan":true,`+answered); status != 200 || !strings.Contains(answer, "1.0.1") || strings.Contains(answer, planned.Tag) {
		t.Errorf("planned again: %d %s", status, answer)
	}
	mu.Lock()
	server = first
	mu.Unlock()
	status, answer = s.operateAs(key, "POST", "servers", planned.Tag, `{`+answered)
	conf, _ := os.ReadFile(s.config)
	if err := json.Unmarshal([]byte(answer), &added); err != nil || status != 200 || len(added.Servers) != 1 || len(added.Secrets) != 1 || strings.Contains(answer+string(conf), "abcdefgh") || !strings.Contains(string(conf), "echo-mcp@1.0.0") {
		t.Errorf("added: %d %s\n%s", status, answer, conf)
	}
}

// TestDoctorOverTheAPI: a running gateway tells what weir doctor finds, with the output of a server that
// ended, of one server or of all.
func TestDoctorOverTheAPI(t *testing.T) {
	t.Parallel()
	needsShell(t)
	const hostile = "<script>alert(1)</script>"
	h := newHome(t)
	s, key := serveHome(t, h, `{"mcpServers":{"good":{"command":"%FAKE%"},"bad":{"command":"sh","args":["-c","echo '`+hostile+`' >&2; exit 7"]}}}`)
	s.await("bad", func(h gateway.Health) bool { return h.Upstreams["bad"].Error != "" && h.Upstreams["good"].Tools > 0 })
	look := func(query string) []api.Finding {
		t.Helper()
		status, answer := s.operateAs(key, "GET", "doctor"+query, "", "")
		if status != 200 {
			t.Fatalf("doctor%s: %d %s", query, status, answer)
		}
		return decode[struct{ Findings []api.Finding }](t, answer).Findings
	}
	level := func(list []api.Finding, thing string) (levels, lines string) {
		for _, f := range list {
			if strings.Contains(f.Thing, thing) {
				levels, lines = levels+f.Level+" ", lines+strings.Join(f.Lines, "\n")
			}
		}
		return levels, lines
	}
	all := look("")
	if levels, lines := level(all, "bad"); !strings.Contains(levels, "fail") || !strings.Contains(lines, hostile) {
		t.Errorf("of bad: %s, %s in %+v", levels, lines, all)
	}
	if levels, _ := level(all, "good"); !strings.Contains(levels, "ok") || strings.Contains(levels, "fail") {
		t.Errorf("of good: %s in %+v", levels, all)
	}
	if levels, _ := level(all, s.url); !strings.Contains(levels, "ok") {
		t.Errorf("of the gateway: %s in %+v", levels, all)
	}
	if one := look("?name=bad"); len(one) == 0 || len(one) >= len(all) {
		t.Errorf("of one server: %+v", one)
	}
	if status, answer := s.operateAs(key, "GET", "doctor?name=nothing", "", ""); status != 404 {
		t.Errorf("of no server: %d %s", status, answer)
	}
}

// TestClientsOverTheAPI: the user of the gateway plans, makes and takes back changes of clients. A plan
// changes nothing, a change of the files in between is seen, and secrets stay out of answers.
func TestClientsOverTheAPI(t *testing.T) {
	t.Parallel()
	needsShell(t)
	h := newHome(t)
	h.write(t, ".cursor/mcp.json", `{"mcpServers":{"mine":{"command":"`+fakeBin+`","env":{"API_KEY":"`+secretsOfHome[0]+`"}}}}`)
	s, key := serveHome(t, h, "mcpServers: {}\n"+withAnn())
	mine := theirs(h.files(t))
	for _, method := range []string{"GET", "POST"} {
		if status, answer := s.operateAs(annsToken, method, "clients", "", `{"do":"import","plan":true}`); status != 403 {
			t.Errorf("%s of another operator: %d %s", method, status, answer)
		}
	}
	_, answer := s.operateAs(key, "GET", "clients", "", "")
	states := map[string]string{}
	for _, c := range decode[struct{ Clients []api.Client }](t, answer).Clients {
		states[c.ID] = c.State
	}
	if states["cursor"] != "not wired" {
		t.Fatalf("the clients are %s", answer)
	}
	const connect = `{"do":"connect","clients":["cursor"]`
	_, answer = s.operateAs(key, "POST", "clients", "", connect+`,"plan":true}`)
	planned := decode[api.Wired](t, answer)
	if len(planned.Files) != 1 || len(planned.Adds) == 0 || planned.Operation != 0 {
		t.Fatalf("the plan is %s", answer)
	}
	sameFiles(t, "after the plan", theirs(h.files(t)), mine)
	for body, want := range map[string]int{`{"do":"import"}`: 409, `{"do":"sell","clients":["cursor"]}`: 400, `{"do":"connect"}`: 400, `{"do":"connect","clients":["none"]}`: 404} {
		if status, answer := s.operateAs(key, "POST", "clients", "another", body); status != want {
			t.Errorf("%s: %d, want %d: %s", body, status, want, answer)
		}
	}
	status, answer := s.operateAs(key, "POST", "clients", planned.Tag, connect+"}")
	done := decode[api.Wired](t, answer)
	if status != 200 || done.Operation == 0 || len(done.Servers) == 0 || done.Problem != "" {
		t.Fatalf("connected: %d %s", status, answer)
	}
	noSecrets(t, map[string]string{"the answer": answer})
	if status, answer = s.operateAs(key, "POST", "clients", planned.Tag, connect+"}"); status != 409 {
		t.Errorf("with the tag of older files: %d %s", status, answer)
	}
	_, answer = s.operateAs(key, "POST", "clients", "", `{"do":"disconnect","clients":["cursor"],"plan":true}`)
	if off := decode[api.Wired](t, answer); len(off.Files) != 1 || len(off.Files[0].Brings) == 0 {
		t.Errorf("the plan to disconnect is %s", answer)
	}
	if status, answer = s.operateAs(key, "POST", fmt.Sprintf("operations/%d/undo", done.Operation), "", `{}`); status != 200 {
		t.Errorf("undone: %d %s", status, answer)
	}
	sameFiles(t, "after the undo", theirs(h.files(t)), mine)
}
