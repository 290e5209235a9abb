package cli

import (
	"bytes"
	"context"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/setup/service"
	"github.com/weir-mcp/weir/internal/testkit/proctest"
)

// manager is a systemctl and a loginctl that do what systemd does with one unit of a user: they run
// its command line and say how it is.
const managerScript = `#!/bin/sh
unit="$HOME/.config/systemd/user/weir.service"
alive() { [ -f "$HOME/pid" ] && kill -0 "$(cat "$HOME/pid")" 2>/dev/null; }
end() {
	alive && kill "$(cat "$HOME/pid")" && while alive; do sleep 0.02; done
	rm -f "$HOME/pid"
}
begin() {
	end
	export PATH=/usr/bin:/bin
	: >"$HOME/service.out"
	(
		exec >"$HOME/service.out" 2>&1 </dev/null
		eval "exec $(sed -n 's/^ExecStart=//p' "$unit")"
	) &
	echo $! >"$HOME/pid"
	until grep -q '^  URL' "$HOME/service.out"; do
		alive || { echo "Job for weir.service failed: $(cat "$HOME/service.out")" >&2; exit 1; }
		sleep 0.02
	done
}
case "$(basename "$0") $*" in
"loginctl show-user "*) echo Linger=no ;;
"systemctl --user show --property=Version") [ ! -f "$HOME/no-bus" ] || { echo "Failed to connect to bus: No medium found" >&2; exit 1; } ;;
"systemctl --user show weir.service "*)
	[ -f "$HOME/enabled" ] && echo UnitFileState=enabled
	if alive; then echo ActiveState=active; echo SubState=running; echo MainPID="$(cat "$HOME/pid")"; echo "ActiveEnterTimestamp=$(date -u '+%a %Y-%m-%d %H:%M:%S UTC')"
	else echo ActiveState=inactive; echo SubState=dead; fi ;;
"systemctl --user daemon-reload" | "systemctl --user reset-failed weir.service") ;;
"systemctl --user enable weir.service") touch "$HOME/enabled" ;;
"systemctl --user disable --now weir.service") rm -f "$HOME/enabled"; end ;;
"systemctl --user restart weir.service" | "systemctl --user start weir.service") begin ;;
"systemctl --user stop weir.service") end ;;
*) echo "what is $0 $*?" >&2; exit 64 ;;
esac
`

// A serviceHome is a home whose user is not root, with a manager of services.
type serviceHome struct {
	*aHome
	weirPath string
}

func newServiceHome(t *testing.T) *serviceHome {
	t.Helper()
	h := &serviceHome{aHome: newHome(t)}
	bin := filepath.Join(h.dir, "bin")
	h.weirPath = filepath.Join(bin, "weir")
	h.write(t, "bin/systemctl", managerScript, 0o755)
	h.write(t, "bin/loginctl", managerScript, 0o755)
	h.write(t, ".profile", "echo Good morning\nPATH=\"$HOME/tools:$HOME/bin:$PATH\"\n", 0o600)
	h.write(t, "tools/time-server", "#!/bin/sh\nexec \"$HOME/bin/fakemcp\"\n", 0o755)
	for from, to := range map[string]string{weirBin: h.weirPath, fakeBin: filepath.Join(bin, "fakemcp")} {
		data, err := os.ReadFile(from)
		if err == nil {
			err = os.WriteFile(to, data, 0o755)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	h.env = append(h.env, "PATH="+bin+":/usr/bin:/bin", "SHELL=/bin/sh", "USER=ann")
	h.give(t)
	t.Cleanup(func() { h.weir(t, "service", "uninstall", "--yes") })
	return h
}

// write writes a file of the home.
func (h *serviceHome) write(t *testing.T, name, data string, mode fs.FileMode) {
	t.Helper()
	path := filepath.Join(h.dir, name)
	err := os.MkdirAll(filepath.Dir(path), 0o700)
	if err == nil {
		err = os.WriteFile(path, []byte(data), mode)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// plainUser is the user of the commands where the tests run as root, which weir refuses.
const plainUser = 65534

// give gives the home to a user who is not root.
func (h *serviceHome) give(t *testing.T) {
	t.Helper()
	if os.Getuid() != 0 {
		return
	}
	err := os.Chown(filepath.Dir(h.dir), plainUser, plainUser)
	if err == nil {
		err = filepath.WalkDir(h.dir, func(path string, _ fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			return os.Lchown(path, plainUser, plainUser)
		})
	}
	if err != nil {
		t.Fatal(err)
	}
}

// command returns a command of the user.
func (h *serviceHome) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, h.weirPath, args...)
	cmd.Dir, cmd.Env = h.dir, environment(h.env...)
	if os.Getuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: plainUser, Gid: plainUser}}
	}
	return cmd
}

// weir runs a command of the user.
func (h *serviceHome) weir(t *testing.T, args ...string) finished {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), limit)
	defer cancel()
	cmd := h.command(ctx, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &stdout, &stderr, time.Second
	_ = cmd.Run() // the exit code says it all
	return endOf(cmd, stdout.String(), stderr.String())
}

// configuration writes the user's configuration, with one server that only the shell's PATH has.
func (h *serviceHome) configuration(t *testing.T) {
	t.Helper()
	h.write(t, ".config/weir/weir.yaml", "listen: "+freeAddress(t)+"\nmcpServers:\n  time: {command: time-server}\n", 0o600)
	h.give(t)
}

// TestServiceLife installs the service, with another port, looks at it, ends it and takes it back.
func TestServiceLife(t *testing.T) {
	t.Parallel()
	h := newServiceHome(t)
	h.weir(t, "service", "status").want(t, exitTool, "weir service install")
	h.weir(t, "service", "start").want(t, exitUsage, "no service is installed")
	h.weir(t, "service", "install", "--yes").want(t, exitUsage, "there is no configuration at", "weir init")
	h.configuration(t)
	before := h.files(t)
	h.weir(t, "service", "install").want(t, exitUsage, "weir.service", "systemctl --user enable weir.service", "--yes")
	plan := decode[servicePlanJSON](t, h.weir(t, "service", "install", "--dry-run", "--json").want(t, exitOK).stdout)
	if !plan.DryRun || len(plan.Files) != 3 || !plan.Files[1].New || plan.URL == "" {
		t.Errorf("plan: %+v", plan)
	}
	sameFiles(t, "plans", withoutJournal(h.files(t)), withoutJournal(before))

	h.weir(t, "service", "install", "--yes").want(t, exitOK, "the service runs", "loginctl enable-linger", "weir undo")
	if env := h.files(t)[".config/weir/service.env"]; !strings.Contains(env, `PATH="`+h.dir+"/tools:"+h.dir+"/bin:") {
		t.Errorf("service.env:\n%s", env)
	}
	h.weir(t, "ls").want(t, exitOK, "time", "ready") // by the shell's PATH
	st := decode[service.Status](t, h.weir(t, "service", "status", "--json").want(t, exitOK).stdout)
	if !proctest.Guarded(st.PID) {
		t.Errorf("the service, process %d, would outlive a killed test", st.PID)
	}
	if !st.Running || !st.Enabled || st.PID == 0 || st.Since.IsZero() || !strings.HasPrefix(st.Log, "journalctl --user") {
		t.Errorf("status: %+v", st)
	}
	h.weir(t, "doctor").want(t, exitOK, "service-linger")
	h.weir(t, "upgrade").want(t, exitOK, "weir service stop && weir service start")

	address := freeAddress(t)
	port := address[strings.LastIndexByte(address, ':')+1:]
	h.weir(t, "service", "install", "--port", port, "--yes").want(t, exitOK, "127.0.0.1:"+port)
	h.weir(t, "service", "install", "--yes").want(t, exitOK, "127.0.0.1:"+port) // it is kept
	h.weir(t, "service", "status").want(t, exitOK, "http://127.0.0.1:"+port+"/mcp", "active (running)")
	h.weir(t, "service", "stop").want(t, exitOK)
	h.weir(t, "service", "status").want(t, exitTool, "inactive (dead)")
	h.weir(t, "doctor").want(t, exitTool, "service-off") // it starts the server itself, without the shell's PATH
	h.weir(t, "service", "start").want(t, exitOK)
	h.weir(t, "undo", "--yes").want(t, exitOK, "restore the service")
	h.weir(t, "undo", "--yes").want(t, exitOK)
	h.weir(t, "service", "status").want(t, exitOK, plan.URL) // as first installed
	h.weir(t, "service", "uninstall", "--yes").want(t, exitOK, "the service is removed")
	h.weir(t, "service", "status").want(t, exitTool)
	h.weir(t, "undo", "--yes").want(t, exitOK)
	h.weir(t, "service", "status").want(t, exitOK)
	h.weir(t, "undo", "1", "--yes").want(t, exitOK)
	sameFiles(t, "all undone", withoutJournal(h.files(t)), withoutJournal(before))
}

// withoutJournal leaves out the files that stay: the journal, and locks.
func withoutJournal(files map[string]string) map[string]string {
	out := map[string]string{}
	for name, text := range files {
		if !strings.Contains(name, "/weir/journal/") && !strings.HasPrefix(name, ".local/state/weir/") && name != "service.out" {
			out[name] = text
		}
	}
	return out
}

// TestServiceRefusals: without a manager, and as root, nothing changes.
func TestServiceRefusals(t *testing.T) {
	t.Parallel()
	h := newServiceHome(t)
	h.configuration(t)
	h.write(t, "no-bus", "", 0o644)
	h.weir(t, "service", "install", "--yes").want(t, exitUnavailable, "systemd does not serve this user", "No medium found")
	if _, err := os.Stat(filepath.Join(h.dir, ".config/systemd")); err == nil {
		t.Error("a unit was written")
	}
	if os.Getuid() == 0 {
		h.aHome.weir(t, "service", "install", "--yes").want(t, exitUsage, "without sudo", "systemctl enable --now weir")
	}
}

// TestServiceTakesTheGatewayOver: a gateway that runs already makes way for the service, and a
// failure of the service says what the gateway said.
func TestServiceTakesTheGatewayOver(t *testing.T) {
	t.Parallel()
	h := newServiceHome(t)
	h.configuration(t)
	other := h.command(t.Context(), "serve", "--config", ".config/weir/weir.yaml")
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- other.Wait() }()
	t.Cleanup(func() { _ = other.Process.Kill() })
	for end := time.Now().Add(20 * time.Second); h.weir(t, "ls").code != exitOK; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the gateway does not run")
		}
	}
	h.weir(t, "service", "install", "--yes").want(t, exitOK, "runs already", "the service runs")
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("the other gateway: %v", err)
		}
	case <-time.After(30 * time.Second):
		t.Error("the other gateway goes on")
	}
	h.write(t, ".config/weir/weir.yaml", "mcpServers: {\n", 0o600)
	h.weir(t, "service", "install", "--yes").want(t, exitUnavailable, "Job for weir.service failed", "weir.yaml", "journalctl")
}

// clientFiles are the files of the fixture home's clients.
var clientFiles = []string{".claude.json", ".cursor/mcp.json", ".config/Code/User/mcp.json"}

// entries counts the clients' files that hold a text.
func (h *serviceHome) entries(t *testing.T, text string) (n int) {
	t.Helper()
	files := h.files(t)
	for _, name := range clientFiles {
		if strings.Contains(files[name], text) {
			n++
		}
	}
	return n
}

// TestConnectToTheService: with a service, clients get its URL, unless a token is wanted or a flag
// says otherwise. Disconnect and undo know each form.
func TestConnectToTheService(t *testing.T) {
	t.Parallel()
	h := newServiceHome(t)
	h.configuration(t)
	before := theirs(h.files(t))
	h.weir(t, "service", "install", "--yes").want(t, exitOK)
	url := decode[service.Status](t, h.weir(t, "service", "status", "--json").stdout)
	at := `"` + serviceURL(*url.Settings) + `"`
	h.weir(t, "connect", "cursor", "vscode", "--yes", "--keep").want(t, exitOK, "weir into cursor, vscode")
	if h.entries(t, at) != 2 || h.entries(t, `"attach"`) != 0 {
		t.Errorf("the clients have no URL %s: %v", at, h.files(t)[clientFiles[1]])
	}
	h.weir(t, "connect", "cursor", "--yes", "--keep", "--attach").want(t, exitOK)
	if h.entries(t, at) != 1 || h.entries(t, `"attach"`) != 1 {
		t.Errorf("--attach: %s", h.files(t)[clientFiles[1]])
	}
	h.weir(t, "connect", "cursor", "--yes", "--keep", "--url", "https://weir.example/mcp").want(t, exitOK)
	if h.entries(t, `"https://weir.example/mcp"`) != 1 || h.entries(t, `"attach"`) != 0 {
		t.Errorf("--url: %s", h.files(t)[clientFiles[1]])
	}
	for _, wrong := range [][]string{{"--url", "weir.example"}, {"--url", "https://u:p@weir.example/mcp"}, {"--url", "http://a", "--attach"}} {
		h.weir(t, append([]string{"connect", "cursor", "--yes"}, wrong...)...).want(t, exitUsage)
	}
	h.weir(t, "service", "uninstall").want(t, exitUsage, "weir connect vscode --attach")
	h.weir(t, "disconnect", "cursor", "--url", "https://weir.example/mcp", "--yes").want(t, exitOK, "weir out of cursor")
	h.weir(t, "disconnect", "vscode", "--yes").want(t, exitOK, "weir out of vscode")
	after := h.files(t)
	for _, name := range clientFiles {
		if after[name] != before[name] {
			t.Errorf("%s is\n%s", name, after[name])
		}
	}

	h.write(t, ".config/weir/weir.yaml", after[".config/weir/weir.yaml"]+"auth:\n  tokens: [{name: me, sha256: "+strings.Repeat("a", 64)+"}]\n", 0o600)
	h.weir(t, "connect", "cursor", "--yes", "--keep").want(t, exitOK)
	if h.entries(t, `"attach"`) != 1 {
		t.Errorf("with tokens: %s", h.files(t)[clientFiles[1]])
	}
}

// TestInitWithService: init offers the service as its last question, makes it with the rest, and one
// undo takes all of it back.
func TestInitWithService(t *testing.T) {
	t.Parallel()
	h := newServiceHome(t)
	h.write(t, "tools/npx", "#!/bin/sh\nexec \"$HOME/bin/fakemcp\"\n", 0o755)
	h.write(t, "tools/uvx", "#!/bin/sh\nexec \"$HOME/bin/fakemcp\"\n", 0o755)
	h.env = append(h.env, "PATH="+h.dir+"/tools:"+h.dir+"/bin:/usr/bin:/bin", "HTTPS_PROXY=http://127.0.0.1:1", "https_proxy=http://127.0.0.1:1", "TERM=dumb")
	address := freeAddress(t) // the default port may be another test's
	h.write(t, ".config/weir/weir.yaml", "listen: "+address+"\n", 0o600)
	h.give(t)
	before := withoutJournal(h.files(t))
	at := `"http://` + address + `/mcp"`
	h.weir(t, "init", "--dry-run", "--service").want(t, exitOK, "Service", "starts at login", address)
	sameFiles(t, "dry run", withoutJournal(h.files(t)), before)

	h.weir(t, "init", "--yes").want(t, exitOK)
	if h.entries(t, `"attach"`) != 3 {
		t.Error("init --yes without --service: not every client has attach")
	}
	h.weir(t, "service", "status").want(t, exitTool)
	h.weir(t, "undo", "--yes").want(t, exitOK)
	h.write(t, "no-bus", "", 0o644)
	h.weir(t, "init", "--yes", "--service").want(t, exitUnavailable, "does not serve this user")
	if err := os.Remove(filepath.Join(h.dir, "no-bus")); err != nil {
		t.Fatal(err)
	}
	sameFiles(t, "a service that cannot be", withoutSecrets(withoutJournal(h.files(t))), before)

	s := personAt(t, h.command(t.Context(), "init", "--secrets", "inline"))
	s.answer("Bring these servers behind weir", "y\n")
	answerSandboxes(s, "n\n")
	s.answer("Connect ", "y\n")
	s.answer("starts at login? [y/N]", "y\n")
	s.end(exitOK)
	if h.entries(t, at) != 3 || !strings.Contains(s.stdout.String(), "the service") {
		t.Errorf("clients without the URL %s: %s\n%s", at, h.files(t)[clientFiles[0]], &s.stdout)
	}
	h.weir(t, "service", "status").want(t, exitOK, address)
	h.weir(t, "init", "--yes").want(t, exitOK, "nothing to change")
	h.weir(t, "undo", "--yes").want(t, exitOK, "restore the service")
	h.weir(t, "service", "status").want(t, exitTool)
	sameFiles(t, "undo", withoutSecrets(withoutJournal(h.files(t))), before)
}

// withoutSecrets leaves out the store of secrets, which stays when it is empty.
func withoutSecrets(files map[string]string) map[string]string {
	for name := range files {
		if strings.Contains(name, "/weir/secrets.") {
			delete(files, name)
		}
	}
	return files
}
