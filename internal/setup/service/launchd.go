package service

import (
	"context"
	"encoding/xml"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// launchd runs the service as an agent of the user's session.
type launchd struct{ m Machine }

// label names the agent.
const label = "io.github.weir-mcp.weir"

func (launchd) title() string { return "launchd" }
func (l launchd) unit() string {
	return filepath.Join(l.m.Home, "Library", "LaunchAgents", label+".plist")
}
func (l launchd) log() string { return "tail -F " + shellQuote(l.logFile()) }

func (l launchd) logFile() string { return filepath.Join(l.m.State, "logs", "service.log") }
func (l launchd) domain() string  { return "gui/" + strconv.Itoa(l.m.UID) }

func (l launchd) probe(ctx context.Context) error {
	_, err := l.m.Run(ctx, "launchctl", "print-disabled", l.domain())
	return err
}

// agent is the property list of the agent. KeepAlive starts a gateway again that failed, and leaves
// one that ended by itself.
const agent = `<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<!-- Written by "weir service install", which replaces it. -->
<plist version="1.0">
<dict>
	<key>Label</key>
	<string>io.github.weir-mcp.weir</string>
	<key>ProgramArguments</key>
	<array>
@COMMAND@
	</array>
	<key>RunAtLoad</key>
	<true/>
	<key>KeepAlive</key>
	<dict>
		<key>SuccessfulExit</key>
		<false/>
	</dict>
	<key>ThrottleInterval</key>
	<integer>10</integer>
	<key>ExitTimeOut</key>
	<integer>10</integer>
	<key>ProcessType</key>
	<string>Interactive</string>
	<key>Umask</key>
	<integer>63</integer>
</dict>
</plist>
`

func (l launchd) render(settings Settings) []byte {
	argv := append([]string{settings.Program}, settings.arguments(filepath.Join(l.m.Config, "service.env"), l.logFile())...)
	var lines []string
	for _, arg := range argv {
		lines = append(lines, "\t\t<string>"+xmlText(arg)+"</string>")
	}
	return []byte(strings.ReplaceAll(agent, "@COMMAND@", strings.Join(lines, "\n")))
}

// xmlText escapes a text for XML.
func xmlText(text string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(text)) // a Builder takes everything
	return b.String()
}

func (l launchd) commands(a Action) []Command {
	target := l.domain() + "/" + label
	out := Command{Argv: []string{"launchctl", "bootout", target}, MayFail: true} // it may not be loaded
	switch a {
	case Installing:
		return []Command{
			out, {Argv: []string{"launchctl", "enable", target}},
			{Argv: []string{"launchctl", "bootstrap", l.domain(), l.unit()}},
		}
	case Removing:
		return []Command{out}
	case Stopping:
		return []Command{{Argv: []string{"launchctl", "kill", "SIGTERM", target}}}
	}
	return []Command{{Argv: []string{"launchctl", "kickstart", target}}}
}

var (
	launchdState = regexp.MustCompile(`(?m)^\tstate = (.+)$`)
	launchdPID   = regexp.MustCompile(`(?m)^\tpid = (\d+)$`)
	launchdOff   = regexp.MustCompile(`"` + regexp.QuoteMeta(label) + `" => (disabled|true)`)
)

func (l launchd) status(ctx context.Context) (Status, error) {
	disabled, err := l.m.Run(ctx, "launchctl", "print-disabled", l.domain())
	if err != nil {
		return Status{}, err
	}
	st := Status{Enabled: !launchdOff.MatchString(disabled), State: "not loaded"}
	out, err := l.m.Run(ctx, "launchctl", "print", l.domain()+"/"+label)
	if err != nil {
		return st, nil // launchd does not know the agent
	}
	if m := launchdState.FindStringSubmatch(out); m != nil {
		st.State = m[1]
		st.Running = m[1] == "running"
	}
	if m := launchdPID.FindStringSubmatch(out); m != nil {
		st.PID, _ = strconv.Atoi(m[1])
	}
	return st, nil
}

// shellQuote writes a path for a shell.
func shellQuote(text string) string {
	if !strings.ContainsAny(text, " '\"\\$`&;()<>|*?") {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
