package config

import "github.com/weir-mcp/weir/internal/json/strict"

// Registry is the key registry. The gateway does not use it: weir add and weir import read it each
// time, so a change of it needs no reload.
type Registry struct {
	URL string `key:"url" doc:"Address of the MCP Registry that weir add and weir import ask, without /v0.1. Default: the registry of the MCP project."`
}

// checkRegistry checks the key registry.
func checkRegistry(d *strict.Decoder, c *Config) {
	const key = "registry.url"
	if c.Registry.URL == "" {
		return
	}
	if u := d.CheckURL(c.Registry.URL, key); u != nil && (u.User != nil || u.RawQuery != "" || u.Fragment != "") {
		d.Fail(d.At(key), key, "%s must have no user, no query and no fragment, such as https://registry.example.com", key)
	}
}
