// Package cli implements the command weir. It reads flags and the environment, combines the other
// packages and talks to people. It does not know JSON-RPC framing, ranking, connections or the
// meaning of results; other packages do.
//
//	Main ─▶ run ─▶ cobra ─┬─▶ serve ─────────────────────────▶ gateway ─▶ HTTP, or stdin and stdout
//	                      ├─▶ ls search browse call view ─┬──▶ a running gateway over HTTP (--url)
//	                      │   select stats table          └──▶ gateway, in this process (--config)
//	                      ├─▶ agent ─▶ agentserver    computer ─▶ smcp/computer    hub ─▶ smcp/hub
//	                      └─▶ config bench demo version
//
//	gateway = config ─▶ upstream.Manager ─▶ snapshot ─▶ metatool.Gateway
//
// Each subcommand has its own file. They share target.go (which gateway to ask), client.go (how to
// ask it), output.go and terminal.go (how to print the answer) and exit.go (the exit code).
package cli
