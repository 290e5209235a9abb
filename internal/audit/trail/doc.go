// Package trail writes the audit log of a gateway: requests that do not pass the meta-tools, refusals,
// decisions of operators, changes of definitions and of the configuration, and what commands do with
// credentials.
//
//	passthrough, guards, operators, data plane ─▶ Auditor ─▶ audit.Log
//	weir login, weir logout ─▶ CommandStore ─▶ Record
//
// Without a log it does nothing.
package trail
