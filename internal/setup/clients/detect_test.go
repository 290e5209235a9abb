package clients

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

// disk is a machine with some files. A folder exists if a file in it does.
func disk(os, home string, variables map[string]string, files ...string) Environment {
	separator := "/"
	if os == "windows" {
		separator = `\`
	}
	return Environment{
		OS: os, Home: home,
		Getenv: func(name string) string { return variables[name] },
		Exists: func(path string) bool {
			return slices.ContainsFunc(files, func(file string) bool { return file == path || strings.HasPrefix(file, path+separator) })
		},
		Names: func(folder string) []string {
			names := map[string]bool{}
			for _, file := range files {
				if rest, ok := strings.CutPrefix(file, folder+separator); ok {
					name, _, _ := strings.Cut(rest, separator)
					names[name] = true
				}
			}
			return slices.Collect(maps.Keys(names))
		},
	}
}

func TestDetect(t *testing.T) {
	for name, c := range map[string]struct {
		env  Environment
		want []string // id: target, and the number of files
	}{
		"nothing": {disk("linux", "/home/me", nil, "/home/me/notes.txt"), nil},
		"linux": {
			disk("linux", "/home/me", nil, "/home/me/.claude.json", "/home/me/.config/Code/User/settings.json", "/home/me/.config/zed/settings.json"),
			[]string{"claude-code /home/me/.claude.json 1", "vscode /home/me/.config/Code/User/mcp.json 0", "zed /home/me/.config/zed/settings.json 1"},
		},
		"variables": {
			disk("linux", "/home/me", map[string]string{"CODEX_HOME": "/opt/codex", "CLAUDE_CONFIG_DIR": "/opt/claude", "XDG_CONFIG_HOME": "/cfg", "COPILOT_HOME": "/opt/copilot", "GEMINI_CLI_HOME": "/opt/gemini"},
				"/opt/codex/config.toml", "/opt/claude/.claude.json", "/cfg/zed/settings.json", "/opt/copilot/mcp-config.json", "/opt/gemini/.gemini/settings.json", "/home/me/.codex/config.toml"),
			[]string{"claude-code /opt/claude/.claude.json 1", "zed /cfg/zed/settings.json 1", "codex /opt/codex/config.toml 1", "gemini /opt/gemini/.gemini/settings.json 1", "copilot-cli /opt/copilot/mcp-config.json 1"},
		},
		"macos": {
			disk("darwin", "/Users/me", nil, "/Users/me/Library/Application Support/Claude/claude_desktop_config.json", "/Users/me/.config/zed/settings.json",
				"/Users/me/Library/Application Support/Code/User/profiles/b/mcp.json", "/Users/me/Library/Application Support/Code/User/profiles/a/mcp.json"),
			[]string{"claude-desktop /Users/me/Library/Application Support/Claude/claude_desktop_config.json 1", "vscode /Users/me/Library/Application Support/Code/User/profiles/a/mcp.json 2", "zed /Users/me/.config/zed/settings.json 1"},
		},
		"windows store": {
			disk("windows", `C:\Users\me`, map[string]string{"APPDATA": `D:\Roaming`, "LOCALAPPDATA": `D:\Local`},
				`D:\Local\Packages\Claude_pzs8sxrjxfjjc\LocalCache\Roaming\Claude\claude_desktop_config.json`, `D:\Roaming\Claude\claude_desktop_config.json`, `C:\Users\me\.cursor\mcp.json`, `D:\Roaming\Block\goose\config\config.yaml`),
			[]string{`claude-desktop D:\Roaming\Claude\claude_desktop_config.json 2`, `cursor C:\Users\me\.cursor\mcp.json 1`, `goose D:\Roaming\Block\goose\config\config.yaml 1`},
		},
		"older places": {
			disk("linux", "/home/me", nil, "/home/me/.cache/lm-studio/mcp.json", "/home/me/.gemini/antigravity/mcp_config.json", "/home/me/.config/opencode/opencode.json"),
			[]string{"opencode /home/me/.config/opencode/opencode.json 1", "lmstudio /home/me/.cache/lm-studio/mcp.json 1", "antigravity /home/me/.gemini/antigravity/mcp_config.json 1"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, f := range Detect(c.env) {
				got = append(got, f.Client.ID+" "+f.Target+" "+string(rune('0'+len(f.Files))))
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("found\n%q, want\n%q", got, c.want)
			}
		})
	}
}
