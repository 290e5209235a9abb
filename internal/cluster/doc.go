// Package cluster lets several gateways over one store act as one: it says which nodes are there, which
// node owns what, and carries requests to the owner.
//
//	Node ─ renews its document n.INC each 3 s ─▶ store ─ Follow ─▶ Peers, Gone
//	  │     no acknowledgement for 15 s: fenced; it forgets what it owned and goes on as another INC
//	  ├─ Claim, Take ─ compare-and-set of one document ─▶ one owner of a thing
//	  ├─ Suspect ─ 3 pings, a dial, the word of a third node ─▶ n.INC of a dead node is deleted
//	  └─ Send, Forward, Sessions ─ package link ─▶ another node
//
// An incarnation (INC) is one life of a node. Ids of what lives on a node contain the INC of their owner, so
// there is no directory of owners.
//
// The package knows neither MCP sessions nor configurations. A gateway without
// a cluster has the node that [Solo] returns: all questions have their answers, and nothing runs.
package cluster
