package config

import (
	"net"
	"net/netip"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/weir-mcp/weir/internal/json/strict"
)

// Tables names further forms of a server's results that count as a table. Always counted are an
// array of objects, an object whose only member is one, and one object a line.
type Tables struct {
	Paths    []string `key:"paths" empty:"none" doc:"Where in an object the rows stand, whatever else is in it: features, data.items, or features[].properties for one member of each element (both name the rows of GeoJSON)."`
	Dispatch bool     `key:"dispatch" default:"false" doc:"Keep the bodies of sync results (S2SP) from agents at /mcps/NAME/mcp, too. The next call that names their ddi:// handle gets them. At /mcp it is always so."`
	Relay    bool     `key:"relay" default:"false" doc:"For a server with a data plane of its own (S2SP) that weir starts or that listens on loopback: its rows stay there until they are fetched, and stream through weir, whatever their size. Without it weir asks for all rows with the call, at most max_response bytes, and keeps them."`
	CSV      bool     `key:"csv" default:"false" doc:"Text whose lines are comma-separated values, the first one the columns' names, is a table."`
}

// S2SP configures the transfer of tables from server to server.
type S2SP struct {
	Allow   []string `key:"allow" empty:"same" doc:"Further servers, as host:port, from which a $table reference may be fetched. Always allowed are weir, the URLs in mcpServers and registered agents."`
	Private []string `key:"private" empty:"same" doc:"Networks such as 10.0.0.0/8 that names of such servers may lead to. Addresses that are not public are refused otherwise, unless they are named themselves."`
}

func (d *decoder) checkTables(c *Config) {
	if dir := c.Artifacts.Dir; dir != "" && !filepath.IsAbs(dir) && d.dir != "" {
		c.Artifacts.Dir = filepath.Join(d.dir, dir)
	}
	for i, server := range c.S2SP.Allow {
		host, port, err := net.SplitHostPort(server)
		if n, perr := strconv.ParseUint(port, 10, 16); err != nil || perr != nil || n == 0 || host == "" || strings.ContainsAny(host, "/@ \t") {
			d.Fail(d.At("s2sp.allow"), "s2sp.allow", "s2sp.allow[%d] must be a server such as weather.example.com:443, not %q", i, strict.Clip(server))
		}
	}
	for i, network := range c.S2SP.Private {
		if _, err := netip.ParsePrefix(network); err != nil {
			d.Fail(d.At("s2sp.private"), "s2sp.private", "s2sp.private[%d] must be a network such as 10.0.0.0/8, not %q", i, strict.Clip(network))
		}
	}
}
