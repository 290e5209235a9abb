// Package gosdk adds tools of package s2sp to servers of the official Go SDK.
//
//	s2sp.ResourceTool(…) ─▶ *s2sp.ToolHandler ─┐
//	                                           ├─ gosdk.Add ─▶ *mcp.Server ─▶ Run
//	s2sp.ConsumerTool(…) ─▶ *s2sp.ToolHandler ─┘
//
// It is the only product package of weir that imports the SDK. Programs that do not use the SDK do
// not compile it. The package knows nothing of tables.
package gosdk
