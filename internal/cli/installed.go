package cli

import (
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
)

// A channel is a way in which weir is installed, and the command that installs its newest version.
type channel struct {
	name    string // for programs: --json
	by      string // for people, after "installed"
	command string // "" where the new version is fetched by hand from downloads
}

// downloads is the page with the archives and packages of the newest version.
const downloads = "https://github.com/weir-mcp/weir/releases/latest"

// channels are all ways in which weir is installed. internal/dist and .goreleaser.yaml make them.
var channels = map[string]channel{
	"homebrew":   {"homebrew", "with Homebrew", "brew upgrade --cask weir"},
	"scoop":      {"scoop", "with Scoop", "scoop update weir"},
	"winget":     {"winget", "with winget", "winget upgrade --id WeirMCP.Weir"},
	"npx":        {"npx", "by npx, for this run", "npx -y weir-mcp@latest"},
	"npm":        {"npm", "with npm", "npm install -g weir-mcp@latest"},
	"npm-local":  {"npm-local", "with npm, in a project", "npm install weir-mcp@latest"},
	"pipx":       {"pipx", "with pipx", "pipx upgrade weir-mcp"},
	"uv":         {"uv", "with uv", "uv tool upgrade weir-mcp"},
	"uvx":        {"uvx", "by uvx, for this run", "uvx weir-mcp@latest"},
	"pip":        {"pip", "with pip", "python -m pip install --upgrade weir-mcp"},
	"go-install": {"go-install", "with go install", "go install github.com/weir-mcp/weir/cmd/weir@latest"},
	"image":      {"image", "as a container image", "docker pull ghcr.io/weir-mcp/weir:latest"},
	"deb":        {"deb", "from a .deb package", ""},
	"rpm":        {"rpm", "from an .rpm package", ""},
	"apk":        {"apk", "from an .apk package", ""},
	"mcpb":       {"mcpb", "as a bundle of an MCP client", ""},
	"source":     {"source", "from a clone of its repository", "git pull && make build"},
	"archive":    {"archive", "from an archive", ""},
}

// markerPath is the file in which a package says its channel, relative to the folder of the program.
const markerPath = "../share/weir/channel"

// folders are parts of paths under which package managers keep programs, the nearest first.
var folders = []struct{ part, channel string }{
	{"/_npx/", "npx"},
	{"/lib/node_modules/", "npm"},
	{"/npm/node_modules/", "npm"}, // %APPDATA%\npm
	{"/node_modules/", "npm-local"},
	{"/archive-v0/", "uvx"}, // in uv's cache, wherever that is
	{"/Caskroom/", "homebrew"},
	{"/Cellar/", "homebrew"},
	{"/scoop/apps/", "scoop"},
	{"/WinGet/Packages/", "winget"},
	{"/Claude Extensions/", "mcpb"},
	{"/go-build", "source"}, // go run
}

// siteFolders are where pip notes a package, relative to the folder of its scripts.
var siteFolders = []string{
	"../lib/python3*/site-packages",
	"../local/lib/python3*/dist-packages",
	"../lib/python3/dist-packages",
	"../Lib/site-packages", // Windows
}

// installed tells how a program was installed. path has no symbolic links; info may be nil.
// Packages of the system say it in a file. Package managers are known by their folders. "archive"
// is what remains.
func installed(path string, info *debug.BuildInfo) channel {
	folder := filepath.Dir(path)
	if marker, err := os.ReadFile(filepath.Join(folder, filepath.FromSlash(markerPath))); err == nil {
		if c, known := channels[strings.TrimSpace(string(marker))]; known {
			return c
		}
	}
	slashed := strings.ReplaceAll(path, `\`, "/")
	for _, f := range folders {
		if strings.Contains(slashed, f.part) {
			return channels[f.channel]
		}
	}
	for receipt, name := range map[string]string{"../uv-receipt.toml": "uv", "../pipx_metadata.json": "pipx"} {
		if _, err := os.Stat(filepath.Join(folder, filepath.FromSlash(receipt))); err == nil {
			return channels[name]
		}
	}
	for _, site := range siteFolders {
		if noted, _ := filepath.Glob(filepath.Join(folder, filepath.FromSlash(site), "weir_mcp-*.dist-info")); len(noted) > 0 {
			return channels["pip"]
		}
	}
	if info != nil && info.Main.Sum != "" {
		return channels["go-install"] // built of a module that was downloaded
	}
	for _, clone := range []string{"go.mod", "../go.mod"} { // bin/weir is in a folder of the clone
		if _, err := os.Stat(filepath.Join(folder, filepath.FromSlash(clone))); err == nil {
			return channels["source"]
		}
	}
	return channels["archive"]
}

// programPath returns the path of the running program without symbolic links.
func programPath() string {
	path, err := os.Executable()
	if err != nil {
		return ""
	}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	return path
}
