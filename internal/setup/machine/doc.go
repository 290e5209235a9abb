// Package machine lets the operators of a running gateway change the gateway's configuration file and the
// computer around it: it implements api.Machine for weir serve and for gateways within other programs.
//
//	api ─┬─▶ edits ────▶ setup.Plan ─▶ weir.yaml ─▶ the gateway reads it again
//	     ├─▶ registry ─▶ mcpregistry
//	     ├─▶ checkup ──▶ doctor
//	     └─▶ wiring ───▶ the files of MCP clients
//
// It asks no person and prints nothing. Commands of weir that do the same without a gateway share its
// functions.
package machine
