package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"
)

// TestBuildVersion: a tag that go install recorded is the version; what the linker says goes
// before it.
func TestBuildVersion(t *testing.T) {
	t.Parallel()
	vcs := []debug.BuildSetting{{Key: "vcs.revision", Value: "0123456789abcdef0123"}, {Key: "vcs.modified", Value: "true"}}
	for _, c := range []struct {
		linked string
		info   *debug.BuildInfo
		want   string
	}{
		{"devel", &debug.BuildInfo{Main: debug.Module{Version: "v0.1.0", Sum: "h1:x"}}, "v0.1.0"},
		{"devel", &debug.BuildInfo{Main: debug.Module{Version: "v0.1.1-0.20261122112704-7c690dc01234"}}, "v0.1.1-0.20261122112704-7c690dc01234"},
		{"devel", &debug.BuildInfo{Main: debug.Module{Version: "(devel)"}, Settings: vcs}, "devel-0123456789ab-dirty"},
		{"devel", &debug.BuildInfo{Main: debug.Module{Version: "(devel)"}, Settings: vcs[:1]}, "devel-0123456789ab"},
		{"devel", &debug.BuildInfo{}, "devel"},
		{"devel", nil, "devel"},
		{"v0.2.0", &debug.BuildInfo{Main: debug.Module{Version: "v0.1.0"}}, "v0.2.0"},
	} {
		if got := buildVersion(c.linked, c.info); got != c.want {
			t.Errorf("buildVersion(%q, %+v) = %q, want %q", c.linked, c.info, got, c.want)
		}
	}
}

// TestInstalled: every channel is known by its folder, its marker or the program's build.
func TestInstalled(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	write := func(name, text string) {
		path := filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, system := range []string{"deb", "rpm", "apk", "image"} {
		write(system+"/usr/share/weir/channel", system+"\n")
	}
	write("odd/share/weir/channel", "tape\n")
	write("venv/lib/python3.14/site-packages/weir_mcp-0.1.0.dist-info/RECORD", "")
	write("win/Lib/site-packages/weir_mcp-0.1.0.dist-info/RECORD", "")
	for tool, receipt := range map[string]string{"uv": "uv-receipt.toml", "pipx": "pipx_metadata.json"} {
		write(tool+"/"+receipt, "")
		write(tool+"/lib/python3.14/site-packages/weir_mcp-0.1.0.dist-info/RECORD", "")
	}
	write("clone/go.mod", "module x\n")
	downloaded := &debug.BuildInfo{Main: debug.Module{Version: "v0.1.0", Sum: "h1:x"}}
	built := &debug.BuildInfo{Main: debug.Module{Version: "v0.1.0"}}

	seen := map[string]bool{}
	for _, c := range []struct {
		path string
		info *debug.BuildInfo
		want string
	}{
		{root + "/deb/usr/bin/weir", built, "deb"},
		{root + "/rpm/usr/bin/weir", built, "rpm"},
		{root + "/apk/usr/bin/weir", built, "apk"},
		{root + "/image/usr/bin/weir", built, "image"},
		{root + "/odd/bin/weir", built, "archive"},
		{root + "/venv/bin/weir", built, "pip"},
		{root + "/win/Scripts/weir.exe", built, "pip"},
		{root + "/clone/bin/weir", built, "source"},
		{"/tmp/go-build1/b001/exe/weir", built, "source"},
		{"/home/ann/.npm/_npx/8f/node_modules/@weir-mcp/linux-x64/bin/weir", built, "npx"},
		{"/usr/lib/node_modules/weir-mcp/node_modules/@weir-mcp/linux-x64/bin/weir", built, "npm"},
		{`C:\Users\Ann\AppData\Roaming\npm\node_modules\weir-mcp\node_modules\@weir-mcp\win32-x64\bin\weir.exe`, built, "npm"},
		{"/home/ann/site/node_modules/@weir-mcp/linux-x64/bin/weir", built, "npm-local"},
		{root + "/pipx/bin/weir", built, "pipx"},
		{root + "/uv/bin/weir", built, "uv"},
		{"/home/ann/.cache/uv/archive-v0/x/bin/weir", built, "uvx"},
		{"/opt/homebrew/Caskroom/weir/0.1.0/weir", built, "homebrew"},
		{`C:\Users\Ann\scoop\apps\weir\current\weir.exe`, built, "scoop"},
		{`C:\Users\Ann\AppData\Local\Microsoft\WinGet\Packages\WeirMCP.Weir_x\weir.exe`, built, "winget"},
		{"/Users/ann/Library/Application Support/Claude/Claude Extensions/weir/server/weir-darwin", built, "mcpb"},
		{"/home/ann/go/bin/weir", downloaded, "go-install"},
		{"/home/ann/bin/weir", built, "archive"},
		{"/home/ann/bin/weir", nil, "archive"},
		{"", nil, "archive"},
	} {
		got := installed(c.path, c.info)
		seen[got.name] = true
		if got.name != c.want || got != channels[c.want] {
			t.Errorf("installed(%q) = %+v, want %s", c.path, got, c.want)
		}
	}
	for name, c := range channels {
		if !seen[name] || c.name != name {
			t.Errorf("channel %q (%q) is in no case", name, c.name)
		}
	}
}

// TestUpgrade: the command stands alone on standard output.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	print := func(c channel, asJSON bool) (string, string) {
		var out, notes bytes.Buffer
		none := func(string) (string, bool) { return "", false }
		a := &process{stdout: newTerminal(&out, none), stderr: newTerminal(&notes, none), lookupEnv: none, version: "v0.1.0"}
		if err := printUpgrade(a, c, "/opt/weir", asJSON); err != nil {
			t.Fatal(err)
		}
		return out.String(), notes.String()
	}
	out, notes := print(channels["uv"], false)
	if out != "uv tool upgrade weir-mcp\n" || !strings.Contains(notes, "weir v0.1.0 (/opt/weir) was installed with uv") {
		t.Errorf("%q, %q", out, notes)
	}
	out, notes = print(channels["deb"], false)
	if out != downloads+"\n" || !strings.Contains(notes, "from a .deb package") {
		t.Errorf("%q, %q", out, notes)
	}
	var got struct{ Version, Program, Channel, Command, URL string }
	out, notes = print(channels["homebrew"], true)
	if err := json.Unmarshal([]byte(out), &got); err != nil || notes != "" {
		t.Fatalf("%v, %q", err, notes)
	}
	if got.Version != "v0.1.0" || got.Program != "/opt/weir" || got.Channel != "homebrew" || got.Command != "brew upgrade --cask weir" || got.URL != downloads {
		t.Errorf("%+v", got)
	}
}
