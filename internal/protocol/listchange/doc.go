// Package listchange notifies the clients of an MCP server that its list of tools, resources or
// prompts has changed.
//
//	Tell(Tools) ─┬─▶ each legacy session: notifications/tools/list_changed
//	             └─▶ each subscriptions/listen of a modern client that asked for it
//
// The package knows none of the lists.
package listchange
