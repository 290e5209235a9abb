// Package trust remembers to which configuration files a person has agreed.
//
// A configuration that lies in a folder may have come with a cloned repository,
// and its servers are commands. weir starts none of them before the person has said yes to exactly
// these bytes:
//
//	file ─▶ SHA-256 ─▶ Store ─┬─ agreed: weir starts the servers
//	                          └─ unknown or changed: weir shows them and asks
//
// The package shows no question and starts nothing; it does not know what a configuration says.
package trust
