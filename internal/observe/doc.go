// Package observe reports what a gateway does: its log without secrets, its events, the traffic at /mcps, the
// calls that the console shows, the cost of calls, and the number of sessions.
//
//	passthrough ─▶ Observer ─▶ metrics, events
//	metatool ─▶ Capture ─▶ history
//	/stats ─▶ Usage ─┬─ this node
//	                 └─ peer link ─▶ other nodes
//
// It decides nothing about a call.
package observe
