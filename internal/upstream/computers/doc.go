// Package computers makes the Computers of an office upstreams of a gateway. They are attached when
// their Computer enters the office, and detached when it leaves.
//
//	notify:enter_office ─▶ get_config ─▶ Attach <computer>-<server>   over client:mcp (Computers of weir)
//	                    └▶ get_tools ──▶ Attach <computer>-<bundle>   over client:tool_call (others that say bundles)
//	                                └──▶ Attach <computer>            (all others)
//
// The package joins the protocol (smcp/agent) and the supervision (internal/upstream). Neither of
// them knows the other.
package computers
