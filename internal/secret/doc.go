// Package secret keeps the secrets of one user, for ${secret:NAME} in a configuration: in the
// keyring of the system, or in a file that this user alone can read. It knows nothing of MCP, of
// configurations and of terminals.
//
//	Set ──▶ keyring of the system ─┐ no answer in time, a value that is too large, or none
//	 │                             ▼
//	 └────────────────────────▶ secrets.yaml (0600): each name, where its value is, since when;
//	                                 │               and the value if no keyring has it
//	Lookup ◀── keyring or file ◀─────┘
//
// The file is the index of both places, because keyrings cannot list. It changes with every Set and
// Remove, so a caller that watches it sees each of them. Writers take turns by a lock next to it.
//
// Values appear in the results of [Store.Lookup] alone: no list, no error and no log has them.
package secret
