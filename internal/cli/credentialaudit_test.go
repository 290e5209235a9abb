package cli

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/weir-mcp/weir/internal/gateway"
	"github.com/weir-mcp/weir/internal/host/place"
)

// wantRecords fails unless the log has these records, in this order. Each is given as "key=value"
// members, with commas between them.
func wantRecords(t *testing.T, dir string, want ...string) {
	t.Helper()
	var got []string
	for _, r := range auditLines(t, dir) {
		if has(r, "kind=sign-in") || has(r, "kind=credential") {
			if len(got) < len(want) && !has(r, strings.Split(want[len(got)], ",")...) {
				t.Errorf("record %d is %v, want %s", len(got), r, want[len(got)])
			}
			got = append(got, "")
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d records about credentials, want %d", len(got), len(want))
	}
}

// TestCommandsHaveRecords: what weir login, logout and credentials change is in the audit log: the
// running gateway of the configuration writes it, or the command itself while none has the log open.
func TestCommandsHaveRecords(t *testing.T) {
	t.Parallel()
	idp := protected(t)
	env := []string{"XDG_STATE_HOME=" + t.TempDir(), "XDG_CONFIG_HOME=" + t.TempDir(), "DBUS_SESSION_BUS_ADDRESS=disabled:"}
	config := writeConfig(t, "weir.yaml", "listen: 127.0.0.1:0\naudit: {dir: audit, required: true}\nmcpServers: {notes: {url: \""+idp.URL+"/mcp\"}}\n")
	dir := filepath.Join(filepath.Dir(config), "audit")

	piped(t, "private-1\n", env, "credentials", "set", "jira", "--config", config).want(t, exitOK, "jira is stored")
	want := []string{"kind=credential,method=weir credentials set,server=jira,decision=stored,credential=text,principal=local,detail=of local"}
	wantRecords(t, dir, want...)

	s := startWith(t, env, config, "serve", "--config", config)
	piped(t, "private-2\n", env, "credentials", "set", "jira", "--config", config).want(t, exitOK, "jira is stored")
	logIn(t, idp, env, "--config", config, "notes", "--no-browser").want(t, exitOK, "Signed in at notes.")
	s.await("the server is signed in", func(h gateway.Health) bool { return h.Upstreams["notes"].Tools == 2 })
	piped(t, "", env, "logout", "--config", config, "notes").want(t, exitOK, "Signed out of notes.")
	want = append(want,
		"kind=credential,method=weir credentials set,server=jira,decision=renewed,ip=127.0.0.1",
		"kind=credential,method=weir login,decision=stored,credential=client "+idp.URL,
		"kind=sign-in,method=weir login,server=notes,decision=stored,credential=token",
		"kind=credential,method=weir logout,server=notes,decision=removed,credential=token")
	if _, code := s.end(syscall.SIGTERM); code != 0 {
		t.Errorf("exit code %d", code)
	}
	wantRecords(t, dir, want...)

	piped(t, "", env, "credentials", "rekey", "--config", config).want(t, exitOK, "sealed")
	piped(t, "", env, "credentials", "rm", "jira", "--config", config).want(t, exitOK, "jira is removed")
	piped(t, "", env, "credentials", "rm", "jira", "--config", config).want(t, exitUsage, `no credential "jira"`)
	wantRecords(t, dir, append(want, "method=weir credentials rekey,decision=rekeyed", "method=weir credentials rm,server=jira,decision=removed")...)
	weir(t, "audit", "verify", "--config", config).want(t, exitOK, "as it was written")
	for _, r := range auditLines(t, dir) {
		for key, value := range r {
			if text, _ := value.(string); strings.Contains(text, "private-") {
				t.Errorf("%s has the value of a credential: %v", key, r)
			}
		}
	}
}

// TestCommandsWithoutRecords: while neither a gateway nor the command can write the log, a command
// says so. With audit.required it changes nothing.
func TestCommandsWithoutRecords(t *testing.T) {
	t.Parallel()
	for name, one := range map[string]struct {
		audit, says string
		code, kept  int
	}{
		"required":                 {", required: true", "changes nothing: audit.required is set", exitUnavailable, 0},
		"not required":             {"", "the audit log has no record of this", exitOK, 1},
		"with the key of an input": {`, required: true, key: "${input:KEY}-0123456789abcdef0123456789"`, "audit.key has an input", exitUnavailable, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := []string{"XDG_STATE_HOME=" + t.TempDir(), "XDG_CONFIG_HOME=" + t.TempDir(), "DBUS_SESSION_BUS_ADDRESS=disabled:"}
			config := writeConfig(t, "weir.yaml", "inputs: [{type: promptString, id: KEY}]\naudit: {dir: audit"+one.audit+"}\nmcpServers: {notes: {url: \"https://notes.test/mcp\"}}\n")
			dir := filepath.Join(filepath.Dir(config), "audit")
			unlock, err := place.Lock(t.Context(), filepath.Join(dir, "lock")) // as a gateway on standard input does
			if err != nil {
				t.Fatal(err)
			}
			defer unlock()
			f := piped(t, "private-1\n", env, "credentials", "set", "jira", "--config", config)
			if f.code != one.code || !strings.Contains(f.stderr, one.says) {
				t.Errorf("exit code %d, want %d: %s%s", f.code, one.code, f.stdout, f.stderr)
			}
			ls := piped(t, "", env, "credentials", "ls", "--config", config, "--json")
			if n := strings.Count(ls.stdout, `"jira"`); n != one.kept {
				t.Errorf("%d credentials, want %d: %s%s", n, one.kept, ls.stdout, ls.stderr)
			}
			if one.kept == 0 {
				piped(t, "", env, "login", "notes", "--config", config).want(t, exitUnavailable, one.says)
			}
			if files, _ := filepath.Glob(filepath.Join(dir, "*.jsonl")); len(files) > 0 {
				t.Errorf("the log has %q", files)
			}
		})
	}
}
