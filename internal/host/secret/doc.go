// Package secret keeps the secrets of one user, for ${secret:NAME} in a configuration. They are in
// the keyring of the system, or in a file that only this user can read. The package knows nothing
// of MCP, configurations or terminals.
//
//	Set ──▶ keyring of the system ─┐ no answer in time, a value that is too large, or none
//	 │                             ▼
//	 └────────────────────────▶ secrets.yaml (0600): each name, where its value is, since when;
//	                                 │               and the value if no keyring has it
//	Lookup ◀── keyring or file ◀─────┘
//
// The file is the index of both places, because keyrings cannot list. It changes with every Set and
// Remove, so a caller can watch it for changes. Writers take turns by a lock next to it. Values
// appear only in the results of [Store.Lookup], never in lists, errors or logs.
package secret
