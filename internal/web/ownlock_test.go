package web_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/lockfile"
)

// TestLockOfSingleCallers: each caller's listing is compared with weir.lock by itself, at /mcp and at
// /mcps/NAME/mcp. What is held of one caller is for operators alone.
func TestLockOfSingleCallers(t *testing.T) {
	t.Chdir(t.TempDir()) // weir.lock is next to the configuration
	server := newPersonal(t)
	p := startServing(t, fmt.Sprintf(`personal: {url: %q, credentials: forward, trust: hold, oauth: {audience: "api://personal"}}, `, server.url))
	const plain, direct = "/mcp?mode=plain", "/mcps/personal/mcp"
	lists := func(user, path string) string { return p.caller(user, path).ask("tools/list", `{}`) }
	if got := lists("alice", plain); !strings.Contains(got, "personal__diary_of_alice") {
		t.Fatalf("alice, who was first: %s", got)
	}
	for path, name := range map[string]string{plain: "personal__common", direct: "common"} {
		if got := lists("bobby", path); strings.Contains(got, "diary_of") || strings.Contains(got, name) {
			t.Errorf("bobby at %s gets what no one has agreed to: %s", path, got)
		}
		if got, want := p.caller("bobby", path).ask("tools/call", `{"name":"`+name+`"}`), "read by"; strings.Contains(got, want) {
			t.Errorf("bobby at %s calls it: %s", path, got)
		}
		if got := p.caller("alice", path).ask("tools/call", `{"name":"`+name+`"}`); !strings.Contains(got, "read by alice") {
			t.Errorf("alice at %s: %s", path, got)
		}
	}
	sameAsUnknown(t, p, direct)
	_, state := p.do("GET", "/status/data", operatorToken, "")
	if strings.Contains(state, "differ") || strings.Contains(state, "diary") {
		t.Errorf("the state tells of one caller's list: %s", state)
	}
	s := p.gateway.Definitions.Status().Servers
	if len(s) != 1 || len(s[0].Differences) != 4 { // two tools, a prompt and a template
		t.Fatalf("%+v", s)
	}
	if _, err := p.gateway.Definitions.Accept(t.Context(), lockfile.Acceptance{Server: "personal", Hash: s[0].Digest}); err != nil {
		t.Fatal(err)
	}
	for _, user := range []string{"alice", "bobby", "alice"} {
		for _, path := range []string{direct, plain} {
			got, has := "", false
			for end := time.Now().Add(30 * time.Second); !has && time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
				got = lists(user, path) // the listings are judged again on a goroutine of the server
				has = strings.Contains(got, "diary_of_"+user) && strings.Contains(got, "common")
			}
			if !has {
				t.Errorf("%s at %s does not have what was agreed to: %s", user, path, got)
			}
			if strings.Contains(got, map[string]string{"alice": "bobby", "bobby": "alice"}[user]) {
				t.Errorf("%s at %s: %s", user, path, got)
			}
		}
	}
	sameAsUnknown(t, p, direct)
	if n := len(p.gateway.Definitions.Status().Servers[0].Differences); n != 0 {
		t.Errorf("%d differences", n)
	}
}

// sameAsUnknown checks that each of two callers finds what only the other one has to be like what does
// not exist, whether or not the lock has it.
func sameAsUnknown(t *testing.T, p *protected, path string) {
	t.Helper()
	for user, other := range map[string]string{"alice": "bobby", "bobby": "alice"} {
		c := p.caller(user, path)
		for _, request := range [][2]string{
			{"tools/call", `{"name":"diary_of_%s","arguments":{}}`},
			{"prompts/get", `{"name":"ask_%s"}`},
			{"resources/read", `{"uri":"diary://%s/monday"}`},
			{"resources/read", `{"uri":"diary://%s"}`},
			{"completion/complete", `{"ref":{"type":"ref/prompt","name":"ask_%s"},"argument":{"name":"a","value":"b"}}`},
			{"completion/complete", `{"ref":{"type":"ref/resource","uri":"diary://%s/{day}"},"argument":{"name":"day","value":"b"}}`},
		} {
			got, want := c.ask(request[0], fmt.Sprintf(request[1], other)), c.ask(request[0], fmt.Sprintf(request[1], "zzzzz"))
			if got != strings.ReplaceAll(want, "zzzzz", other) {
				t.Errorf("%s at %s: %s %s\n%s\nis not\n%s", user, path, request[0], request[1], got, want)
			}
		}
	}
}
