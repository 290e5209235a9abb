// Package config reads weir's configuration: one strict struct, from weir.yaml or from the plain
// mcpServers JSON file of an MCP client.
//
// It knows nothing of MCP, connections, prompts or flags. It turns bytes into a [Config], or into a
// complete list of their faults. Its environment comes in through [Options]: variables, the
// program's path, free ports, answers to input questions. So a configuration means the same in a
// test and in production.
//
//	file ──▶ nodes with positions ──▶ decode by the field table ──▶ checks ──▶ *Config
//	 YAML      (source.go)              (table.go, decode.go)       (check.go)    or *Error with
//	 JSON                                     │                                   every problem
//	                                          ├─ ${VAR} ${env:VAR} ${input:id} ${weir:exe} ${weir:port}
//	                                          └─ the same table ──▶ Schema()
//
// There is one table of keys: the struct tags of [Config] and the types below it. The decoder, the
// defaults, the "did you mean" hints and the JSON Schema are all made from it, so they cannot drift
// apart.
//
// The package reads two kinds of file (core rules, "Config"). weir's own is strict: an unknown key
// is an error. It is any YAML file, and weir.json. Any other JSON file is foreign: an MCP client's.
// weir reads its mcpServers (or VS Code's servers), allows comments and trailing commas, and warns
// of unknown keys.
package config
