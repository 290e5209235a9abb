package dist

import (
	"crypto/sha256"
	"fmt"
)

type (
	// registryServer is server.json of the MCP Registry.
	registryServer struct {
		Schema      string            `json:"$schema"`
		Name        string            `json:"name"`
		Title       string            `json:"title"`
		Description string            `json:"description"`
		Repository  map[string]string `json:"repository"`
		Website     string            `json:"websiteUrl"`
		Version     string            `json:"version"`
		Packages    []registryPackage `json:"packages"`
	}
	registryPackage struct {
		Type       string             `json:"registryType"`
		Base       string             `json:"registryBaseUrl,omitempty"`
		Identifier string             `json:"identifier"`
		Version    string             `json:"version,omitempty"`
		SHA256     string             `json:"fileSha256,omitempty"`
		Runtime    string             `json:"runtimeHint,omitempty"`
		Transport  map[string]string  `json:"transport"`
		Arguments  []registryArgument `json:"packageArguments,omitempty"`
	}
	registryArgument struct {
		Type        string `json:"type"`
		Name        string `json:"name,omitempty"`
		Value       string `json:"value,omitempty"`
		Hint        string `json:"valueHint,omitempty"`
		Description string `json:"description,omitempty"`
		Format      string `json:"format,omitempty"`
		Required    bool   `json:"isRequired,omitempty"`
	}
)

// registry makes server.json. It leaves out the container image. The image holds only weir, and
// most servers of a client's file need npx, uvx or programs of the machine.
func (r *Release) registry(bundle File) (File, error) {
	arguments := []registryArgument{
		{Type: "positional", Value: bundleCommand[0]},
		{Type: "named", Name: bundleCommand[1], Format: "filepath", Required: true,
			Description: "weir.yaml, or any file with mcpServers, such as the .mcp.json of a client"},
	}
	stdio := map[string]string{"type": "stdio"}
	data, err := encode(registryServer{
		Schema: "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json",
		Name:   serverName, Title: "weir", Description: summary, Version: r.Version, Website: repository,
		Repository: map[string]string{"url": repository, "source": "github"},
		Packages: []registryPackage{
			{Type: "npm", Base: "https://registry.npmjs.org", Identifier: packageName, Version: r.Version, Runtime: "npx", Transport: stdio, Arguments: arguments},
			{Type: "pypi", Base: "https://pypi.org", Identifier: packageName, Version: pythonVersion(r.Version), Runtime: "uvx", Transport: stdio, Arguments: arguments},
			{Type: "mcpb", Identifier: repository + "/releases/download/v" + r.Version + "/" + bundle.Name, Version: r.Version,
				SHA256: fmt.Sprintf("%x", sha256.Sum256(bundle.Data)), Transport: stdio},
		},
	})
	return File{"server.json", data}, err
}
