// Package dist makes packages for npm, PyPI, MCP clients and the MCP Registry. It makes them from
// binaries of weir that are already built. GoReleaser makes the rest (.goreleaser.yaml).
//
//	binaries ──Open──▶ Release ──▶ NPM        weir-mcp and @weir-mcp/{platform}-{arch}, each a .tgz
//	  (checked: what                Wheels     weir_mcp-…-{platform}.whl
//	   they say of                  Bundle     weir.mcpb
//	   themselves)                  Registry   server.json
//	                                BOM        CycloneDX, for one binary
//
// All of them are bytes in memory, and the same binaries give the same bytes: entries have one
// order, one time and fixed modes. The package builds, downloads and publishes nothing. It knows
// none of weir's other packages.
package dist
