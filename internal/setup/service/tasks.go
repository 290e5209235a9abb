package service

import (
	"context"
	"encoding/binary"
	"path/filepath"
	"strings"
	"unicode/utf16"
)

// tasks runs the service as a task of Windows at logon.
type tasks struct{ m Machine }

func (tasks) title() string     { return "Task Scheduler" }
func (t tasks) unit() string    { return filepath.Join(t.m.State, "service.xml") }
func (t tasks) log() string     { return `powershell Get-Content -Wait -Tail 50 "` + t.logFile() + `"` }
func (t tasks) logFile() string { return filepath.Join(t.m.State, "logs", "service.log") }
func (t tasks) probe(ctx context.Context) error {
	_, err := t.m.Run(ctx, "schtasks", "/Query", "/TN", `\`)
	if err != nil && strings.Contains(err.Error(), "executable file not found") {
		return err
	}
	return nil // The folder of a new user may have no tasks, which schtasks calls an error.
}

// task is the task. conhost runs the gateway without a window. The zero limit lets it run for ever.
const task = `<?xml version="1.0" encoding="UTF-16"?>
<!-- Written by "weir service install", which replaces it. -->
<Task version="1.4" xmlns="http://schemas.microsoft.com/windows/2004/02/mit/task">
  <RegistrationInfo>
    <Description>weir, a gateway between AI agents and MCP servers</Description>
    <URI>\weir</URI>
  </RegistrationInfo>
  <Triggers>
    <LogonTrigger>
      <Enabled>true</Enabled>
      <UserId>@USER@</UserId>
    </LogonTrigger>
  </Triggers>
  <Principals>
    <Principal id="Author">
      <UserId>@USER@</UserId>
      <LogonType>InteractiveToken</LogonType>
      <RunLevel>LeastPrivilege</RunLevel>
    </Principal>
  </Principals>
  <Settings>
    <MultipleInstancesPolicy>IgnoreNew</MultipleInstancesPolicy>
    <DisallowStartIfOnBatteries>false</DisallowStartIfOnBatteries>
    <StopIfGoingOnBatteries>false</StopIfGoingOnBatteries>
    <AllowHardTerminate>true</AllowHardTerminate>
    <StartWhenAvailable>true</StartWhenAvailable>
    <RestartOnFailure>
      <Interval>PT1M</Interval>
      <Count>5</Count>
    </RestartOnFailure>
    <ExecutionTimeLimit>PT0S</ExecutionTimeLimit>
    <Enabled>true</Enabled>
  </Settings>
  <Actions Context="Author">
    <Exec>
      <Command>conhost.exe</Command>
      <Arguments>@COMMAND@</Arguments>
    </Exec>
  </Actions>
</Task>
`

// render returns the XML as UTF-16, which every version of schtasks reads.
func (t tasks) render(settings Settings) []byte {
	argv := append([]string{"--headless", settings.Program}, settings.arguments(filepath.Join(t.m.Config, "service.env"), t.logFile())...)
	for i, arg := range argv {
		argv[i] = windowsQuote(arg)
	}
	text := strings.NewReplacer("@USER@", xmlText(t.m.User), "@COMMAND@", xmlText(strings.Join(argv, " ")), "\n", "\r\n").Replace(task)
	out := []byte{0xff, 0xfe}
	for _, unit := range utf16.Encode([]rune(text)) {
		out = binary.LittleEndian.AppendUint16(out, unit)
	}
	return out
}

// windowsQuote writes an argument for a Windows command line. Backslashes before a quote double.
func windowsQuote(arg string) string {
	if arg != "" && !strings.ContainsAny(arg, " \t\"") {
		return arg
	}
	var b strings.Builder
	b.WriteByte('"')
	slashes := 0
	for _, c := range []byte(arg) {
		switch c {
		case '\\':
			slashes++
		case '"':
			b.WriteString(strings.Repeat(`\`, slashes+1))
			slashes = 0
		default:
			slashes = 0
		}
		b.WriteByte(c)
	}
	return b.String() + strings.Repeat(`\`, slashes) + `"`
}

func (t tasks) commands(a Action) []Command {
	end := Command{Argv: []string{"schtasks", "/End", "/TN", name}, MayFail: true} // it may have ended
	start := Command{Argv: []string{"schtasks", "/Run", "/TN", name}}
	switch a {
	case Installing:
		return []Command{end, {Argv: []string{"schtasks", "/Create", "/TN", name, "/XML", t.unit(), "/F"}}, start}
	case Removing:
		return []Command{end, {Argv: []string{"schtasks", "/Delete", "/TN", name, "/F"}, MayFail: true}}
	case Stopping:
		end.MayFail = false
		return []Command{end}
	}
	return []Command{start}
}

// taskStates are the states of a task by their numbers, which no language of Windows changes.
var taskStates = map[string]string{"1": "disabled", "2": "queued", "3": "ready", "4": "running"}

func (t tasks) status(ctx context.Context) (Status, error) {
	out, err := t.m.Run(ctx, "powershell", "-NoProfile", "-NonInteractive", "-Command",
		"[int](Get-ScheduledTask -TaskName "+name+" -ErrorAction Stop).State")
	if err != nil {
		return Status{}, err
	}
	state := taskStates[strings.TrimSpace(out)]
	return Status{Enabled: state != "disabled" && state != "", Running: state == "running", State: state}, nil
}
