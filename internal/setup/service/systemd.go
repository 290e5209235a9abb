package service

import (
	"context"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// systemd runs the service as a unit of the user.
type systemd struct{ m Machine }

func (systemd) title() string  { return "systemd" }
func (s systemd) unit() string { return filepath.Join(s.m.Units, name+".service") }
func (systemd) log() string    { return "journalctl --user --unit " + name + " --follow" }
func (s systemd) probe(ctx context.Context) error {
	_, err := s.m.Run(ctx, "systemctl", "--user", "show", "--property=Version")
	return err
}

// systemdUnit is the unit. A gateway that refuses its configuration (exit code 2) is not started
// again: only an edit helps.
const systemdUnit = `# Written by "weir service install", which replaces it. Changes of your own:
# systemctl --user edit weir
[Unit]
Description=weir, a gateway between AI agents and MCP servers
Documentation=man:weir(1) https://github.com/weir-mcp/weir
StartLimitIntervalSec=60
StartLimitBurst=5

[Service]
Type=notify
NotifyAccess=main
ExecStart=@COMMAND@
Restart=on-failure
RestartSec=2
RestartPreventExitStatus=2
TimeoutStartSec=60
TimeoutStopSec=10
UMask=0077

[Install]
WantedBy=default.target
`

func (s systemd) render(settings Settings) []byte {
	argv := append([]string{settings.Program}, settings.arguments(filepath.Join(s.m.Config, "service.env"), "")...)
	for i, arg := range argv {
		argv[i] = systemdQuote(arg)
	}
	return []byte(strings.ReplaceAll(systemdUnit, "@COMMAND@", strings.Join(argv, " ")))
}

// systemdQuote writes an argument of ExecStart. Specifiers (%) and variables ($) stay as they are.
func systemdQuote(arg string) string {
	escaped := strings.NewReplacer(`\`, `\\`, `"`, `\"`, `%`, `%%`, `$`, `$$`).Replace(arg)
	if escaped == arg && !strings.ContainsAny(arg, " \t';") {
		return arg
	}
	return `"` + escaped + `"`
}

func (systemd) commands(a Action) []Command {
	run := func(args ...string) Command {
		return Command{Argv: append([]string{"systemctl", "--user"}, args...)}
	}
	const unit = name + ".service"
	switch a {
	case Installing:
		return []Command{run("daemon-reload"), run("enable", unit), run("restart", unit)}
	case Removing:
		end, reset := run("disable", "--now", unit), run("reset-failed", unit)
		end.MayFail, reset.MayFail = true, true // the unit may be gone, and has seldom failed
		return []Command{end, run("daemon-reload"), reset}
	}
	return []Command{run(string(a), unit)}
}

func (s systemd) status(ctx context.Context) (Status, error) {
	out, err := s.m.Run(ctx, "systemctl", "--user", "show", name+".service",
		"--property=ActiveState,SubState,UnitFileState,ActiveEnterTimestamp,MainPID")
	if err != nil {
		return Status{}, err
	}
	values := properties(out)
	st := Status{
		Enabled: values["UnitFileState"] == "enabled", Running: values["ActiveState"] == "active",
		State: values["ActiveState"] + " (" + values["SubState"] + ")",
	}
	if st.Running {
		st.PID, _ = strconv.Atoi(values["MainPID"])
		st.Since, _ = time.ParseInLocation("Mon 2006-01-02 15:04:05 MST", values["ActiveEnterTimestamp"], time.Local) // zero if it is unknown
	}
	if out, err := s.m.Run(ctx, "loginctl", "show-user", s.m.User, "--property=Linger"); err == nil {
		st.Lingers = properties(out)["Linger"] == "yes"
	}
	return st, nil
}

// properties reads lines of NAME=VALUE.
func properties(text string) map[string]string {
	values := map[string]string{}
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		values[key] = value
	}
	return values
}
