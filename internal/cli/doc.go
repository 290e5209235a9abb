// Package cli is the command weir: it reads flags and the environment, puts the other packages
// together and talks to people. It knows nothing of JSON-RPC framing, ranking, connections or what
// a result means; each of these is a package.
//
//	Main ─▶ run ─▶ cobra ─┬─▶ serve ─────────────────────────▶ engine ─▶ HTTP, or stdin and stdout
//	                      ├─▶ ls search browse call view ─┬──▶ a running gateway over HTTP (--url)
//	                      │   select stats table          └──▶ engine, in this process (--config)
//	                      ├─▶ agent ─▶ agentserver    computer ─▶ smcp/computer    hub ─▶ smcp/hub
//	                      └─▶ config bench demo version
//
//	engine = config ─▶ upstream.Manager ─▶ snapshot ─▶ gateway.Gateway
//
// Each subcommand is a file. They share target.go (which gateway is asked), client.go (how),
// output.go and terminal.go (how the answer looks), and exit.go (how a command ends).
package cli
