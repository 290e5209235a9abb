// Package bundle reads MCP bundles (.mcpb, formerly .dxt): MCP servers as zip files with a
// manifest. It starts no program and asks no person.
//
//	file ─▶ Open ─▶ Extract ─▶ folder name-version-sha8 ─┐
//	Claude Desktop's extension folder ─▶ ReadFolder ─────┴▶ Manifest ─▶ Questions ─▶ Command ─▶ an entry of mcpServers
//
// Bundles are made by strangers. No file leaves the folder, and links are refused. The number of
// files, their size and their compression are bounded. No text of a manifest can name a variable or
// a secret of the user: ${ is escaped.
package bundle
