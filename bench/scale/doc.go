// Scale measures a gateway's catalog of growing size, in its own process and without a network: the
// time to build it, of a browse by path, of a search, and of a refresh, which is the change of one
// server's list. The refresh of a catalog of only this server is measured as well, because a
// refresh should cost no more.
//
//	tools ─▶ catalog and index ─▶ gateway ─▶ tool_browse
//	             ▲
//	             └── the list of one server, changed
package main
