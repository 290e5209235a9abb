package dist

import (
	_ "embed"
	"encoding/binary"
	"fmt"
	"slices"
)

//go:embed files/weir-linux.sh
var linuxLauncher []byte

// bundleCommand is the command that an MCP client runs if it installs weir as a server. Clients with
// the same configuration share one gateway.
var bundleCommand = []string{"attach", "--config"}

type (
	// mcpbManifest is manifest.json of an MCP bundle, version 0.3.
	mcpbManifest struct {
		Version       string                    `json:"manifest_version"`
		Name          string                    `json:"name"`
		DisplayName   string                    `json:"display_name"`
		Release       string                    `json:"version"`
		Description   string                    `json:"description"`
		Long          string                    `json:"long_description"`
		Author        map[string]string         `json:"author"`
		Repository    map[string]string         `json:"repository"`
		Homepage      string                    `json:"homepage"`
		Documentation string                    `json:"documentation"`
		Support       string                    `json:"support"`
		Server        mcpbServer                `json:"server"`
		Generated     bool                      `json:"tools_generated"`
		Keywords      []string                  `json:"keywords"`
		License       string                    `json:"license"`
		Compatibility map[string][]string       `json:"compatibility"`
		UserConfig    map[string]map[string]any `json:"user_config"`
	}
	mcpbServer struct {
		Type   string     `json:"type"`
		Entry  string     `json:"entry_point"`
		Config mcpbConfig `json:"mcp_config"`
	}
	mcpbConfig struct {
		Command   string                       `json:"command"`
		Args      []string                     `json:"args"`
		Platforms map[string]map[string]string `json:"platform_overrides"`
	}
)

// bundle makes weir.mcpb, one file for every platform. A manifest chooses by operating system and
// not by processor: macOS gets a program for both, Linux a script that chooses, and Windows on ARM
// runs the program for x64.
func (r *Release) bundle() (File, error) {
	entries, commands := r.programs()
	if len(commands) == 0 {
		return File{}, fmt.Errorf("no platform of weir.mcpb has a binary: it needs linux, darwin or windows/amd64")
	}
	systems := []string{}
	overrides := map[string]map[string]string{}
	for system, file := range commands {
		systems = append(systems, system)
		overrides[system] = map[string]string{"command": "${__dirname}/" + file}
	}
	slices.Sort(systems)
	m := mcpbManifest{
		Version: "0.3", Name: "weir", DisplayName: "weir", Release: r.Version, Description: summary,
		Long:       "An agent finds a tool, runs it by its id, and views the parts it wants of a result that is too long to read. The servers are those of a configuration file of yours.",
		Author:     map[string]string{"name": "The authors of weir", "url": repository},
		Repository: map[string]string{"type": "git", "url": repository + ".git"},
		Homepage:   repository, Documentation: repository + "/tree/main/docs", Support: repository + "/issues",
		Generated: true, Keywords: []string{"gateway", "tools"}, License: "Apache-2.0",
		Server: mcpbServer{Type: "binary", Entry: commands[systems[0]], Config: mcpbConfig{
			Command: "${__dirname}/" + commands[systems[0]], Args: append(slices.Clone(bundleCommand), "${user_config.config}"), Platforms: overrides,
		}},
		Compatibility: map[string][]string{"platforms": systems},
		UserConfig: map[string]map[string]any{"config": {
			"type": "file", "title": "Configuration", "required": true,
			"description": "weir.yaml, or any file with mcpServers, such as the .mcp.json of another client",
		}},
	}
	text, err := encode(m)
	if err != nil {
		return File{}, err
	}
	entries = append([]entry{{name: "manifest.json", data: text}, {name: "LICENSE", data: r.License}}, entries...)
	data, err := zipFile(entries, r.Time)
	return File{"weir.mcpb", data}, err
}

// programs returns the programs of a bundle. It also returns the program that starts on each
// operating system, by the manifest's name of that system.
func (r *Release) programs() (entries []entry, commands map[string]string) {
	commands = map[string]string{}
	var macs []Binary
	for _, b := range r.Binaries {
		switch {
		case b.OS == "darwin":
			macs = append(macs, b)
		case b.OS == "linux":
			entries = append(entries, entry{"server/weir-linux-" + b.Arch, b.Data, true})
			commands["linux"] = "server/weir-linux"
		case b.name() == "windows/amd64":
			entries = append(entries, entry{"server/weir.exe", b.Data, true})
			commands["win32"] = "server/weir.exe"
		}
	}
	if commands["linux"] != "" {
		entries = append(entries, entry{"server/weir-linux", linuxLauncher, true})
	}
	if len(macs) > 0 {
		entries = append(entries, entry{"server/weir-darwin", universal(macs), true})
		commands["darwin"] = "server/weir-darwin"
	}
	return entries, commands
}

// universal joins programs of macOS into one that runs on each of their processors. First is a
// table of processors, offsets and sizes, all big-endian. The programs follow at multiples of 16
// KiB.
func universal(macs []Binary) []byte {
	const magic, alignment = 0xcafebabe, 14 // 2^14 is the page size of ARM
	processors := map[string][2]uint32{"amd64": {0x01000007, 3}, "arm64": {0x0100000c, 0}}
	head := binary.BigEndian.AppendUint32(nil, magic)
	head = binary.BigEndian.AppendUint32(head, uint32(len(macs)))
	pad := func(n int) int { return (n + 1<<alignment - 1) &^ (1<<alignment - 1) }
	offset := pad(8 + 20*len(macs))
	for _, b := range macs {
		processor := processors[b.Arch]
		for _, v := range []uint32{processor[0], processor[1], uint32(offset), uint32(len(b.Data)), alignment} {
			head = binary.BigEndian.AppendUint32(head, v)
		}
		offset = pad(offset + len(b.Data))
	}
	out := head
	for _, b := range macs {
		out = append(out, make([]byte, pad(len(out))-len(out))...)
		out = append(out, b.Data...)
	}
	return out
}
