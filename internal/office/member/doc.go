// Package member keeps a peer connected to a hub and in its office. Agents and Computers share it. It
// knows the join and nothing of calls.
//
//	New ─▶ On … ─▶ Start ─▶ connect ─▶ (prove key) ─▶ join ─▶ Options.OnJoined
//	                 ▲                                             │
//	                 └── back-off with jitter ◀── lost, refused ◀──┘
//
// A hub forgets a peer with its connection, so each new connection joins again. A hub that is not
// weir's may take the old connection for alive for a while, and then refuses the name: the Member
// joins again until the name is free.
package member
