// Package hook asks programs of the operator whether a call may be made, and whether an agent may read
// its result. weir itself detects no prompt injection and no personal data; a hook is where those who
// do decide.
//
//	a call, a result ──▶ Set.Ask ──▶ one question as JSON ─┬─▶ POST to a URL
//	                                                       └─▶ standard input of a program
//	                     a Refusal, or nothing ◀── {"action": "allow" or "deny", "reason": …}
//
// A hook that does not answer as it should has failed. Its own setting says then whether the message
// passes. The package knows neither MCP nor the configuration.
package hook
