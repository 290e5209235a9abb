// Package policy says who may make which call: it gives the settings of a configuration to the meta-tools,
// judges requests at /mcps/NAME/mcp, and answers questions about calls that are not made.
//
//	config.Config ─▶ Controls ─▶ metatool.Options ─▶ /mcp
//	                 Judge ─▶ /mcps/NAME/mcp
//	                 CallsOf ─▶ weir policy
//
// It makes no call and knows no transport.
package policy
