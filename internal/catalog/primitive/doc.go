// Package primitive has the primitives of MCP as servers list them: the raw definitions of tools,
// resources, resource templates and prompts, and bounds and filters for their texts.
//
// It knows nothing of ids, cards and schemas. Package catalog makes entries of a Listing:
//
//	tools/list, … ─▶ Listing ─▶ Presented (handshake) ─▶ Concealed (secrets) ─▶ catalog.With
package primitive
