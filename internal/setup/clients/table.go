package clients

import (
	"slices"
	"time"

	"github.com/weir-mcp/weir/internal/json/splice"
)

// All returns the clients that weir knows. The caller owns the slice.
func All() []*Client { return slices.Clone(all) }

// The forms that several clients share.
var (
	plain     = form{url: "url"}
	typed     = form{url: "url", http: splice.Object{{Key: "type", Value: "http"}}}
	serverURL = form{url: "serverUrl"}
	opencode  = form{
		url: "url", argv: true,
		http:  splice.Object{{Key: "type", Value: "remote"}},
		more:  splice.Object{{Key: "enabled", Value: true}, {Key: "oauth", Value: false}},
		stdio: splice.Object{{Key: "type", Value: "local"}},
		extra: splice.Object{{Key: "enabled", Value: true}},
	}
	mcpServers = splice.Path{"mcpServers"}
)

// oneWord is the quirk of clients that bound the names of tools.
func oneWord(limit string) string {
	return "The names of server and tool together may have " + limit + " characters."
}

// all is the table. After a change run go test ./internal/setup/clients -update, which writes
// docs/clients.md.
var all = []*Client{
	{
		ID: "claude-code", Name: "Claude Code", Proof: Run, Reload: Restart, key: mcpServers, form: typed, vars: withDefault, unit: time.Millisecond,
		files:   []string{"$CLAUDE_CONFIG_DIR:-~//.claude.json"},
		Project: []string{".mcp.json"},
		Quirk:   "A running Claude Code writes the file from its memory: end it before a change. Servers that `claude mcp add` put into one project belong to that project.",
	},
	{
		ID: "claude-desktop", Name: "Claude Desktop", Proof: Vendor, Reload: Restart, EveryFile: true, key: mcpServers,
		files: []string{"$CFG/Claude/claude_desktop_config.json", "windows|$LOCALAPPDATA/Packages/Claude_*/LocalCache/Roaming/Claude/claude_desktop_config.json"},
		Quirk: "It starts programs with a bare PATH. Servers with a URL are connectors of the account and not in the file.",
	},
	{
		ID: "cursor", Name: "Cursor", Proof: Vendor, Reload: ByHand, key: mcpServers, form: plain, vars: named,
		files: []string{"~/.cursor/mcp.json"}, Project: []string{".cursor/mcp.json"}, Quirk: oneWord("60"), link: cursorLink,
	},
	vscode("vscode", "VS Code", "Code", ".vscode-server", "vscode"),
	vscode("vscode-insiders", "VS Code Insiders", "Code - Insiders", ".vscode-server-insiders", "vscode-insiders"),
	{
		ID: "windsurf", Name: "Windsurf", Proof: Vendor, Reload: ByHand, key: mcpServers, form: serverURL, vars: named,
		files: []string{"~/.codeium/windsurf/mcp_config.json"}, Quirk: "It offers 100 tools at most, of all servers together.",
	},
	{
		ID: "devin", Name: "Devin", Proof: Hearsay, Reload: ByHand, key: mcpServers, vars: named,
		form:  form{url: "url", more: splice.Object{{Key: "transport", Value: "http"}}},
		files: []string{"$XDG/devin/mcp_config.json"},
	},
	{
		ID: "cline", Name: "Cline", Proof: Vendor, Reload: Live, key: mcpServers, unit: time.Second,
		form:  form{url: "url", http: splice.Object{{Key: "type", Value: "streamableHttp"}}, sse: "url"},
		files: []string{"$CLINE_DIR:-~/.cline/data/settings/cline_mcp_settings.json", "$GS/saoudrizwan.claude-dev/settings/cline_mcp_settings.json"},
		Quirk: "An entry with a URL and no type is HTTP+SSE.",
	},
	{
		ID: "roo", Name: "Roo Code", Proof: Vendor, Reload: Live, key: mcpServers, unit: time.Second,
		form:  form{url: "url", http: splice.Object{{Key: "type", Value: "streamable-http"}}},
		files: []string{"$GS/rooveterinaryinc.roo-cline/settings/mcp_settings.json"}, Project: []string{".roo/mcp.json"},
		Quirk: "Its last release was in May 2026.",
	},
	{
		ID: "kilo", Name: "Kilo Code", Proof: Vendor, Reload: Restart, key: splice.Path{"mcp"}, form: opencode, vars: curly, unit: time.Millisecond,
		files: []string{"$CONFIG/kilo/kilo.jsonc"}, Project: []string{"kilo.jsonc"},
	},
	{
		ID: "zed", Name: "Zed", Proof: Vendor, Reload: Live, key: splice.Path{"context_servers"}, form: form{url: "url"},
		files: []string{"$XDG/zed/settings.json"}, Project: []string{".zed/settings.json"}, Quirk: "Servers of its extensions are not in the file.",
	},
	{
		ID: "codex", Name: "Codex CLI", Proof: Parsed, Reload: Restart, Format: splice.TOML, key: splice.Path{"mcp_servers"}, form: form{url: "url"}, unit: time.Second,
		files: []string{"$CODEX_HOME:-~/.codex/config.toml"}, Project: []string{".codex/config.toml"},
	},
	{
		ID: "gemini", Name: "Gemini CLI", Proof: Run, Reload: Restart, key: mcpServers, form: typed, vars: shellLike, unit: time.Millisecond,
		files: []string{"$GEMINI_CLI_HOME:-~//.gemini/settings.json"}, Project: []string{".gemini/settings.json"},
		shared: []string{".gemini"},
		Quirk:  "It starts servers only in folders that it trusts. " + oneWord("63"),
	},
	{
		ID: "qwen", Name: "Qwen Code", Proof: Run, Reload: Restart, key: mcpServers, vars: shellLike, unit: time.Millisecond,
		form:  form{url: "httpUrl", sse: "url"},
		files: []string{"~/.qwen/settings.json"}, Project: []string{".qwen/settings.json"},
	},
	{
		ID: "opencode", Name: "OpenCode", Proof: Run, Reload: Restart, key: splice.Path{"mcp"}, older: splice.Path{"mcp", "servers"}, form: opencode, vars: curly, unit: time.Millisecond,
		files: []string{"$CONFIG/opencode/opencode.jsonc", "$CONFIG/opencode/opencode.json"}, Project: []string{"opencode.jsonc", "opencode.json", ".agents/mcp.json"},
		Quirk: "It merges opencode.jsonc and opencode.json.",
	},
	{
		ID: "copilot-cli", Name: "GitHub Copilot CLI", Proof: Parsed, Reload: Restart, key: mcpServers, vars: braces, unit: time.Millisecond,
		form: form{
			url: "url", http: splice.Object{{Key: "type", Value: "http"}}, more: splice.Object{{Key: "tools", Value: []any{"*"}}},
			stdio: splice.Object{{Key: "type", Value: "local"}}, extra: splice.Object{{Key: "tools", Value: []any{"*"}}},
		},
		files: []string{"$COPILOT_HOME:-~/.copilot/mcp-config.json"}, Project: []string{".mcp.json", ".github/mcp.json"},
	},
	{
		ID: "copilot-jetbrains", Name: "GitHub Copilot for JetBrains", Proof: Vendor, Reload: Live, key: splice.Path{"servers"}, form: plain, vars: inputs,
		files: []string{"linux|$CONFIG/github-copilot/intellij/mcp.json", "darwin|$CONFIG/github-copilot/intellij/mcp.json", "windows|$LOCALAPPDATA/github-copilot/intellij/mcp.json"},
	},
	{
		ID: "visual-studio", Name: "Visual Studio", Proof: Vendor, Reload: Live, key: splice.Path{"servers"}, form: plain, vars: inputs,
		files: []string{"~/.mcp.json"}, Project: []string{".mcp.json"}, Quirk: "Claude Code has a file of the same name in projects, with other keys.",
	},
	{
		ID: "goose", Name: "Goose", Proof: Vendor, Reload: Restart, Format: splice.YAML, key: splice.Path{"extensions"}, unit: time.Second,
		form: form{
			url: "uri", command: "cmd",
			http: splice.Object{{Key: "name", Value: "weir"}, {Key: "type", Value: "streamable_http"}}, stdio: splice.Object{{Key: "name", Value: "weir"}, {Key: "type", Value: "stdio"}},
			more: gooseTail, extra: gooseTail,
		},
		files: []string{"linux|$CONFIG/goose/config.yaml", "darwin|$CONFIG/goose/config.yaml", "windows|$APPDATA/Block/goose/config/config.yaml"},
		Quirk: "Its builtin extensions stay.",
	},
	{
		ID: "continue", Name: "Continue", Proof: Vendor, Reload: Live, Format: splice.YAML, key: mcpServers, vars: secrets,
		form:  form{url: "url", http: splice.Object{{Key: "type", Value: "streamable-http"}}, list: true},
		files: []string{"~/.continue/config.yaml"}, Project: []string{".continue/mcpServers/*"},
		NoFile: "Continue reads a config.yaml in place of its config.json, with its models",
		Quirk:  "weir needs its config.yaml: a new one would take the place of a config.json, with its models.",
	},
	{
		ID: "kiro", Name: "Kiro", Proof: Vendor, Reload: Live, key: mcpServers, form: form{url: "url"}, vars: braces,
		files: []string{"~/.kiro/settings/mcp.json"}, Project: []string{".kiro/settings/mcp.json"}, Quirk: "A variable must be approved once in its settings.",
	},
	{
		ID: "amazon-q", Name: "Amazon Q Developer", Proof: Hearsay, Reload: Live, key: mcpServers, form: typed, vars: braces,
		files: []string{"~/.aws/amazonq/mcp.json"}, Project: []string{".amazonq/mcp.json"},
	},
	{
		ID: "junie", Name: "Junie", Proof: Hearsay, Reload: Restart, key: mcpServers,
		files: []string{"~/.junie/mcp/mcp.json"}, Project: []string{".junie/mcp/mcp.json"}, Quirk: "Its documents know programs only, no URLs.",
	},
	{
		ID: "warp", Name: "Warp", Proof: Hearsay, Reload: Live, key: mcpServers, form: plain, vars: braces,
		files: []string{"~/.warp/.mcp.json"}, Project: []string{".warp/.mcp.json"},
	},
	{
		ID: "amp", Name: "Amp", Proof: Vendor, Reload: Restart, key: splice.Path{"amp.mcpServers"}, form: plain, vars: braces,
		files: []string{"$XDG/amp/settings.json", "$XDG/amp/settings.jsonc"}, Project: []string{".amp/settings.json"},
	},
	{
		ID: "droid", Name: "Factory Droid", Proof: Vendor, Reload: Live, key: mcpServers, form: typed, vars: braces,
		files: []string{"~/.factory/mcp.json"}, Project: []string{".factory/mcp.json"},
	},
	{
		ID: "crush", Name: "Crush", Proof: Vendor, Reload: Restart, key: splice.Path{"mcp"}, form: typed, vars: shell, unit: time.Second,
		files: []string{"$CONFIG/crush/crush.json"}, Project: []string{".crush.json", "crush.json"},
		Quirk: "It expands values as a shell does; weir escapes what it writes. Servers in a crushrc, a Bash script, are not read.",
	},
	{
		ID: "lmstudio", Name: "LM Studio", Proof: Vendor, Reload: Live, key: mcpServers, form: plain,
		files: []string{"~/.lmstudio/mcp.json", "~/.cache/lm-studio/mcp.json"}, link: lmStudioLink,
	},
	{
		ID: "antigravity", Name: "Antigravity", Proof: Vendor, Reload: ByHand, key: mcpServers, form: serverURL, shared: []string{".gemini"},
		files: []string{"~/.gemini/config/mcp_config.json", "~/.gemini/antigravity/mcp_config.json"},
	},
	{
		ID: "kimi", Name: "Kimi CLI", Proof: Hearsay, Reload: Restart, key: mcpServers, form: plain,
		files: []string{"~/.kimi-code/mcp.json", "~/.kimi/mcp.json"},
	},
	{
		ID: "vibe", Name: "Mistral Vibe", Proof: Vendor, Reload: Restart, Format: splice.TOML, key: splice.Path{"mcp_servers"},
		form:  form{url: "url", list: true, http: splice.Object{{Key: "transport", Value: "streamable-http"}}, stdio: splice.Object{{Key: "transport", Value: "stdio"}}},
		files: []string{"$VIBE_HOME:-~/.vibe/config.toml"},
	},
	{
		ID: "grok", Name: "Grok CLI", Proof: Hearsay, Reload: Restart, Format: splice.TOML, key: splice.Path{"mcp_servers"}, form: form{url: "url"}, vars: withDefault,
		files: []string{"~/.grok/config.toml"}, Quirk: "It reads the files of Claude Code and Cursor, too.",
	},
	{
		ID: "auggie", Name: "Auggie", Proof: Hearsay, Reload: Restart, key: mcpServers, form: typed,
		files: []string{"~/.augment/settings.json"},
	},
	{
		ID: "qoder", Name: "Qoder", Proof: Hearsay, Reload: Restart, key: mcpServers, form: typed,
		files: []string{"~/.qoder/settings.json"},
	},
	{
		ID: "trae", Name: "Trae", Proof: Hearsay, Reload: Restart, key: mcpServers, form: plain,
		Project: []string{".trae/mcp.json"}, Quirk: "The application manages the user's servers: paste the entry there.",
	},
	{
		ID: "hermes", Name: "Hermes", Proof: Vendor, Reload: Restart, Format: splice.YAML, key: splice.Path{"mcp_servers"}, form: plain, vars: braces, unit: time.Second,
		files: []string{"~/.hermes/config.yaml"},
	},
	{
		ID: "jetbrains-ai", Name: "JetBrains AI Assistant", Proof: Vendor, Reload: Live, key: mcpServers, form: plain,
		Quirk: "It has no file of its own: paste the entry in Settings, Tools, AI Assistant, MCP.",
	},
	{
		ID: "cherry-studio", Name: "Cherry Studio", Proof: Vendor, Reload: Live, key: mcpServers, link: cherryLink,
		form:  form{url: "url", http: splice.Object{{Key: "type", Value: "streamableHttp"}}},
		Quirk: "It has no file of its own: open the link, or paste the entry.",
	},
}

var gooseTail = splice.Object{{Key: "enabled", Value: true}, {Key: "timeout", Value: 300}}

// vscode returns the line of one edition of VS Code.
func vscode(id, name, folder, server, scheme string) *Client {
	return &Client{
		ID: id, Name: name, Proof: Vendor, Reload: Live, key: splice.Path{"servers"}, form: typed, vars: editor,
		files: []string{
			"$CFG/" + folder + "/User/mcp.json", "$CFG/" + folder + "/User/profiles/*/mcp.json", "~/" + server + "/data/User/mcp.json",
		},
		Project: []string{".vscode/mcp.json"},
		Quirk:   "It asks once whether to trust the server. Each profile has a file of its own. " + oneWord("64"),
		link:    vscodeLink(scheme),
	}
}
