// Package config reads weir's configuration: one strict struct, from weir.yaml or
// from the plain mcpServers JSON file of an MCP client.
//
// It knows nothing of MCP, connections, prompts or flags: it turns bytes into a
// [Config] or into a complete list of what is wrong with them. Everything it
// needs from the world (environment, program path, free ports, answers to input
// questions) comes in through [Options], so a configuration means the same in a
// test and in production.
//
//	file ──▶ nodes with positions ──▶ decode by the field table ──▶ checks ──▶ *Config
//	 YAML      (source.go)              (table.go, decode.go)       (check.go)    or *Error with
//	 JSON                                     │                                   every problem
//	                                          ├─ ${VAR} ${env:VAR} ${input:id} ${weir:exe} ${weir:port}
//	                                          └─ the same table ──▶ Schema()
//
// There is one table of keys: the struct tags of [Config] and the types below it.
// The decoder, the defaults, the "did you mean" hints and the JSON Schema are all
// made from it, so they cannot drift apart.
//
// Two kinds of file are read (core rules, "Config"). weir's own (any YAML file,
// and weir.json) is strict: an unknown key is an error. Any other JSON file is
// foreign, written for some MCP client: its mcpServers (or VS Code's servers) are
// read, comments and trailing commas are allowed, and keys weir does not know are
// warnings.
package config
