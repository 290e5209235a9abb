package dist

import (
	_ "embed"
	"fmt"
)

//go:embed files/launcher.js
var launcher []byte

//go:embed files/npm.md
var npmReadme []byte

// npmManifest is package.json, with its keys in the order of npm's documentation.
type npmManifest struct {
	Name        string            `json:"name"`
	Version     string            `json:"version"`
	Description string            `json:"description"`
	Keywords    []string          `json:"keywords,omitempty"`
	Homepage    string            `json:"homepage"`
	Bugs        map[string]string `json:"bugs"`
	License     string            `json:"license"`
	MCPName     string            `json:"mcpName,omitempty"` // the name by which the MCP Registry knows the package's owner
	Bin         map[string]string `json:"bin,omitempty"`
	Files       []string          `json:"files"`
	Repository  map[string]string `json:"repository"` // npm's provenance compares its URL
	Engines     map[string]string `json:"engines,omitempty"`
	OS          []string          `json:"os,omitempty"`
	CPU         []string          `json:"cpu,omitempty"`
	Optional    map[string]string `json:"optionalDependencies,omitempty"`
	Publish     map[string]string `json:"publishConfig"`
}

// npm makes weir-mcp. Its launcher starts the program of a platform's package. npm installs only
// the package for its own os and cpu.
func (r *Release) npm() ([]File, error) {
	manifest := func(name, description string) npmManifest {
		return npmManifest{
			Name: name, Version: r.Version, Description: description, License: "Apache-2.0",
			Homepage: repository, Bugs: map[string]string{"url": repository + "/issues"},
			Repository: map[string]string{"type": "git", "url": "git+" + repository + ".git"},
			Publish:    map[string]string{"access": "public"},
		}
	}
	var files []File
	pack := func(file string, m npmManifest, readme []byte, more ...entry) error {
		text, err := encode(m)
		if err != nil {
			return err
		}
		entries := append([]entry{
			{name: "package/package.json", data: text},
			{name: "package/LICENSE", data: r.License},
			{name: "package/README.md", data: readme},
		}, more...)
		data, err := tarball(entries, r.Time)
		files = append(files, File{fmt.Sprintf("npm/%s-%s.tgz", file, r.Version), data})
		return err
	}

	// The platforms come first: they are published before the package that wants them.
	optional := map[string]string{}
	for _, b := range r.Binaries {
		p := platforms[b.name()]
		short := p.npmOS + "-" + p.npmCPU
		m := manifest("@weir-mcp/"+short, fmt.Sprintf("The program weir for %s, which the package %s starts", short, packageName))
		m.OS, m.CPU, m.Files = []string{p.npmOS}, []string{p.npmCPU}, []string{"bin"}
		optional[m.Name] = r.Version
		if err := pack("weir-mcp-"+short, m, []byte("# "+m.Name+"\n\n"+m.Description+".\n"), entry{"package/bin/" + b.file(), b.Data, true}); err != nil {
			return nil, err
		}
	}
	m := manifest(packageName, summary)
	m.Keywords = []string{"mcp", "model-context-protocol", "gateway", "agents"}
	m.MCPName = serverName
	m.Bin = map[string]string{"weir": "bin/weir.js", packageName: "bin/weir.js"}
	m.Files = []string{"bin"}
	m.Engines = map[string]string{"node": ">=18"}
	m.Optional = optional
	if err := pack(packageName, m, npmReadme, entry{"package/bin/weir.js", launcher, true}); err != nil {
		return nil, err
	}
	return files, nil
}
