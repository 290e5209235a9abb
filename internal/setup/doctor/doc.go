// Package doctor finds out why weir, its servers or its clients do not work, and says how to mend
// it.
//
//	Setup (configuration, servers, clients, service) ─┐
//	Environment (files, programs, network, clock) ────┴▶ Run: checks side by side ▶ Findings
//	                                                                                 └─▶ Repair, if safe
//
// Each check has a bound of its own, and all together take 5 seconds at most. A [Finding] names the
// thing, the owner of the fault and the fix. A table has all kinds; docs/troubleshooting.md
// is generated from it.
//
// The package starts no server: the caller gives it the states of servers as a gateway sees them.
// It reaches the machine only through an [Environment], so tests describe broken machines of every
// system.
package doctor
