package service

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf16"

	"github.com/weir-mcp/weir/internal/testkit/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

var update = flag.Bool("update", false, "write the golden files")

// systems are the systems with a manager of services.
var systems = []string{"linux", "darwin", "windows"}

// A fakeManager answers as systemctl, launchctl and schtasks do.
type fakeManager struct {
	ran  []string
	fail map[string]string // a command line's part, and what it says on standard error
	say  map[string]string // a command line's part, and its output
}

func (f *fakeManager) run(_ context.Context, argv ...string) (string, error) {
	line := strings.Join(argv, " ")
	f.ran = append(f.ran, line)
	for part, reason := range f.fail {
		if strings.Contains(line, part) {
			return "", errors.New(reason)
		}
	}
	for part, out := range f.say {
		if strings.Contains(line, part) {
			return out, nil
		}
	}
	return "", nil
}

// fixture is a machine with a program and a configuration.
func fixture(t *testing.T, system string) (*Service, *fakeManager, Settings) {
	t.Helper()
	home := t.TempDir()
	f := &fakeManager{fail: map[string]string{}, say: map[string]string{}}
	s, err := New(Machine{
		OS: system, Home: home, UID: 1000, User: "ann", Run: f.run,
		Units: filepath.Join(home, "units"), Config: filepath.Join(home, "config"), State: filepath.Join(home, "state"),
	})
	if err != nil {
		t.Fatal(err)
	}
	settings := Settings{Program: filepath.Join(home, "weir"), Config: filepath.Join(home, "weir.yaml"), Env: []string{"PATH=/usr/bin:/bin"}}
	for _, name := range []string{settings.Program, settings.Config} {
		if err := os.WriteFile(name, nil, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return s, f, settings
}

// TestUnits compares the descriptions of the service with golden files. The paths hold what each
// language has to escape.
func TestUnits(t *testing.T) {
	for _, system := range systems {
		m := Machine{OS: system, Home: "/home/ann", UID: 501, User: "ann", Units: "/home/ann/.config/systemd/user", Config: "/home/ann/.config/weir", State: "/home/ann/.local/state/weir"}
		s, err := New(m)
		if err != nil {
			t.Fatal(err)
		}
		settings := Settings{Program: "/opt/my tools/weir", Config: `/home/ann/50% & "more"/$weir.yaml`, Port: 8090}
		got := s.manager.render(settings)
		if system == "windows" {
			got = fromUTF16(t, got)
		}
		golden := filepath.Join("testdata", system+".golden")
		if *update {
			if err := os.WriteFile(golden, got, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != string(want) {
			t.Errorf("%s: run go test ./internal/setup/service -update. Now it is\n%s", system, got)
		}
	}
}

// fromUTF16 decodes little-endian UTF-16 with its mark, and lines as Unix has them.
func fromUTF16(t *testing.T, data []byte) []byte {
	t.Helper()
	if len(data) < 2 || data[0] != 0xff || data[1] != 0xfe {
		t.Fatal("the file does not begin with the mark of UTF-16")
	}
	var units []uint16
	for i := 2; i+1 < len(data); i += 2 {
		units = append(units, uint16(data[i])|uint16(data[i+1])<<8)
	}
	return []byte(strings.ReplaceAll(string(utf16.Decode(units)), "\r\n", "\n"))
}

// TestUnitIsVerified asks systemd itself about the unit, and about that of the packages. Without
// systemd, TestUnits compares the unit with the one that was verified.
func TestUnitIsVerified(t *testing.T) {
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("there is no systemd-analyze")
	}
	s, _, settings := fixture(t, "linux")
	settings.Config = filepath.Join(filepath.Dir(settings.Config), `50% "more" $x.yaml`)
	settings.Program = "/bin/true" // systemd looks for the program
	unit := filepath.Join(t.TempDir(), "weir.service")
	if err := os.WriteFile(unit, s.manager.render(settings), 0o600); err != nil {
		t.Fatal(err)
	}
	verify := func(whose, unit string) {
		cmd := exec.Command(analyze, "verify", "--man=no", whose, unit)
		cmd.Env = append(os.Environ(), "XDG_RUNTIME_DIR="+t.TempDir())
		if out, err := cmd.CombinedOutput(); err != nil || strings.Contains(string(out), "weir.service:") {
			t.Errorf("systemd-analyze verify %s: %v\n%s", whose, err, out)
		}
	}
	verify("--user", unit)

	data, err := os.ReadFile("../../../packaging/weir.service")
	if err != nil {
		t.Fatal(err)
	}
	packaged := filepath.Join(t.TempDir(), "weir.service")
	if err := os.WriteFile(packaged, []byte(strings.Replace(string(data), "=/usr/bin/weir ", "=/bin/true ", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	verify("--system", packaged)
}

// TestLife installs, changes and removes a service on each system.
func TestLife(t *testing.T) {
	for _, system := range systems {
		t.Run(system, func(t *testing.T) {
			s, f, settings := fixture(t, system)
			ctx := t.Context()
			if st, err := s.Status(ctx); err != nil || st.Installed || len(f.ran) > 0 {
				t.Fatalf("before: %+v, %v, %q", st, err, f.ran)
			}
			for name, change := range map[string]func(context.Context) error{"remove": s.Remove, "start": s.Start, "stop": s.Stop} {
				if err := change(ctx); !errors.Is(err, ErrNone) {
					t.Errorf("%s without a service: %v", name, err)
				}
			}
			if err := s.Install(ctx, settings); err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{s.manager.unit(), s.Env(), s.record()} {
				info, err := os.Stat(name)
				if err != nil || info.Mode().Perm() != 0o600 {
					t.Errorf("%s: %v, %v", name, info, err)
				}
			}
			installed, err := s.Installed()
			if err != nil || installed.Path() != "/usr/bin:/bin" || installed.Config != settings.Config {
				t.Fatalf("installed: %+v, %v", installed, err)
			}
			first, _ := os.ReadFile(s.manager.unit())
			changed := settings
			changed.Port = 9000
			if err := s.Install(ctx, changed); err != nil {
				t.Fatal(err)
			}
			if now, _ := s.Installed(); now == nil || now.Port != 9000 {
				t.Errorf("the port is not kept: %+v", now)
			}
			if err := s.Restore(ctx, &settings); err != nil {
				t.Fatal(err)
			}
			if again, _ := os.ReadFile(s.manager.unit()); string(again) != string(first) {
				t.Errorf("the unit did not come back")
			}
			if err := errors.Join(s.Stop(ctx), s.Start(ctx), s.Remove(ctx), s.Restore(ctx, nil)); err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{s.manager.unit(), s.Env(), s.record()} {
				if _, err := os.Stat(name); err == nil {
					t.Errorf("%s is left", name)
				}
			}
		})
	}
}

// TestFailedInstallIsTakenBack: a service that does not start leaves the machine as it was.
func TestFailedInstallIsTakenBack(t *testing.T) {
	s, f, settings := fixture(t, "linux")
	f.fail["restart"] = "Job for weir.service failed"
	if err := s.Install(t.Context(), settings); err == nil || !strings.Contains(err.Error(), "Job for weir.service failed") {
		t.Fatalf("%v", err)
	}
	if now, err := s.Installed(); now != nil || err != nil {
		t.Errorf("%+v, %v", now, err)
	}
	if _, err := os.Stat(s.Env()); err == nil {
		t.Error("service.env is left")
	}
	if !slices.Contains(f.ran, "systemctl --user disable --now weir.service") {
		t.Errorf("ran %q", f.ran)
	}
	delete(f.fail, "restart")
	if err := s.Install(t.Context(), settings); err != nil {
		t.Fatal(err)
	}
	f.fail["restart"] = "no"
	worse := settings
	worse.Port = 1
	if err := s.Install(t.Context(), worse); err == nil {
		t.Fatal("no error")
	}
	if now, _ := s.Installed(); now == nil || now.Port != 0 {
		t.Errorf("the old settings are gone: %+v", now)
	}
}

// TestRefusals: what cannot work is refused before anything is written.
func TestRefusals(t *testing.T) {
	if _, err := New(Machine{OS: "linux", UID: 0}); err == nil || !strings.Contains(err.Error(), "without sudo") {
		t.Errorf("root: %v", err)
	}
	if _, err := New(Machine{OS: "plan9", UID: 1}); err == nil {
		t.Error("plan9")
	}
	for want, change := range map[string]func(*Settings, *fakeManager){
		"weir init":            func(s *Settings, _ *fakeManager) { s.Config += "x" },
		"no such file":         func(s *Settings, _ *fakeManager) { s.Program += "x" },
		"no port":              func(s *Settings, _ *fakeManager) { s.Port = 70000 },
		"no description":       func(s *Settings, _ *fakeManager) { s.Env = []string{"PATH=/a\nB=c"} },
		"no regular file":      func(s *Settings, _ *fakeManager) { s.Config = filepath.Dir(s.Config) },
		"does not serve":       func(_ *Settings, f *fakeManager) { f.fail["show"] = "Failed to connect to bus" },
		"Failed to connect to": func(_ *Settings, f *fakeManager) { f.fail["show"] = "Failed to connect to bus" },
	} {
		s, f, settings := fixture(t, "linux")
		change(&settings, f)
		if err := s.Install(t.Context(), settings); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
		if _, err := os.Stat(filepath.Dir(s.manager.unit())); err == nil {
			t.Errorf("%s: something was written", want)
		}
	}
}

// TestEnvKeepsOwnLines: variables that the user added survive installations and the removal.
func TestEnvKeepsOwnLines(t *testing.T) {
	s, _, settings := fixture(t, "linux")
	settings.Env = []string{`PATH=/opt/"x"\y:/bin`}
	read := func() string {
		data, _ := os.ReadFile(s.Env())
		return string(data)
	}
	if err := s.Install(t.Context(), settings); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(read(), `PATH="/opt/\"x\"\\y:/bin"`) {
		t.Errorf("%s", read())
	}
	if err := os.WriteFile(s.Env(), []byte("# mine\n"+read()+"GITHUB_TOKEN=abc\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	settings.Env = []string{"PATH=/new"}
	if err := s.Install(t.Context(), settings); err != nil {
		t.Fatal(err)
	}
	if want := "# mine\n" + envBegin + "PATH=\"/new\"\n" + envEnd + "GITHUB_TOKEN=abc\n"; read() != want {
		t.Errorf("%s", read())
	}
	if err := s.Remove(t.Context()); err != nil {
		t.Fatal(err)
	}
	if read() != "# mine\nGITHUB_TOKEN=abc\n" {
		t.Errorf("%s", read())
	}
}

// TestStatus reads what each manager says.
func TestStatus(t *testing.T) {
	for system, c := range map[string]struct {
		say  map[string]string
		want string
	}{
		"linux": {map[string]string{
			"show weir.service": "ActiveState=active\nSubState=running\nUnitFileState=enabled\nActiveEnterTimestamp=Sun 2026-11-22 13:39:30 UTC\nMainPID=77\n",
			"loginctl":          "Linger=yes\n",
		}, "true true true active (running) 77 2026-11-22T13:39:30Z"},
		"darwin": {map[string]string{
			"print-disabled": "\tdisabled services = {\n\t\t\"io.github.weir-mcp.weir\" => enabled\n\t}\n",
			"print gui":      "gui/501/io.github.weir-mcp.weir = {\n\tactive count = 1\n\tstate = running\n\n\tpid = 77\n\tjetsam = {\n\t\tstate = x\n\t}\n}\n",
		}, "true true false running 77 0001-01-01T00:00:00Z"},
		"windows": {map[string]string{"powershell": "4\r\n"}, "true true false running 0 0001-01-01T00:00:00Z"},
	} {
		s, f, settings := fixture(t, system)
		if err := s.Install(t.Context(), settings); err != nil {
			t.Fatal(err)
		}
		f.say = c.say
		st, err := s.Status(t.Context())
		got := fmt.Sprint(st.Enabled, st.Running, st.Lingers, " ", st.State, " ", st.PID, " ", st.Since.UTC().Format(time.RFC3339))
		if err != nil || got != c.want || !st.Installed || st.Log == "" {
			t.Errorf("%s: %s, want %s (%v)", system, got, c.want, err)
		}
		f.say = map[string]string{"show weir.service": "ActiveState=failed\nSubState=failed\nUnitFileState=disabled\n", "print-disabled": "\"io.github.weir-mcp.weir\" => disabled", "powershell": "1"}
		if st, err := s.Status(t.Context()); err != nil || st.Running || st.Enabled {
			t.Errorf("%s: %+v, %v", system, st, err)
		}
	}
}

// TestShellPath finds the PATH between what a shell prints at its start.
func TestShellPath(t *testing.T) {
	answer := func(out string, err error) func(context.Context, ...string) (string, error) {
		return func(_ context.Context, argv ...string) (string, error) {
			if argv[0] != "/bin/zsh" || argv[1] != "-lic" {
				t.Errorf("ran %q", argv)
			}
			return out, err
		}
	}
	got, err := ShellPath(t.Context(), answer("Welcome!\n"+shellMark+"\n/a:/b\n"+shellMark+"\nbye", errors.New("exit status 1")), "/bin/zsh")
	if got != "/a:/b" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	for _, out := range []string{"", "/a:/b", shellMark + "\n" + shellMark + "\n", shellMark + "\n/a", shellMark + "\n/a\n/b\n" + shellMark + "\n"} {
		if got, err := ShellPath(t.Context(), answer(out, nil), "/bin/zsh"); err == nil {
			t.Errorf("%q gave %q", out, got)
		}
	}
	dir := t.TempDir()
	if got := CleanPath("." + ":" + dir + ":/nonexistent:" + dir + ":relative"); got != dir {
		t.Errorf("CleanPath: %q", got)
	}
}

// TestLogIsBounded: a full log is set aside.
func TestLogIsBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "logs", "service.log")
	l, err := OpenLog(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { l.file.Close() }()
	block := make([]byte, 1<<20)
	for range 10 {
		if _, err := l.Write(block); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]int64{path: 2 << 20, path + ".old": 4 << 20} {
		if info, err := os.Stat(name); err != nil || info.Size() != want || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %+v, %v", name, info, err)
		}
	}
}
