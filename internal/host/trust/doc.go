// Package trust remembers the configuration files that a user has agreed to.
//
// A configuration in a folder may have come with a cloned repository, and its servers are commands.
// weir starts none of them before the user has agreed to exactly these bytes:
//
//	file ─▶ SHA-256 ─▶ Store ─┬─ agreed: weir starts the servers
//	                          └─ unknown or changed: weir shows them and asks
//
// The package asks no question and starts nothing. It does not know the contents of a
// configuration.
package trust
