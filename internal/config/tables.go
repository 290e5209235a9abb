package config

import (
	"net"
	"net/netip"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/weir-mcp/weir/internal/json/strict"
)

// S2SP configures the transfer of tables from server to server.
type S2SP struct {
	Allow   []string `key:"allow" empty:"same" doc:"Further servers, as host:port, from which a $table reference may be fetched. Always allowed are weir, the URLs in mcpServers and registered agents."`
	Private []string `key:"private" empty:"same" doc:"Networks such as 10.0.0.0/8 that names of such servers may lead to. Addresses that are not public are refused otherwise, unless they are named themselves."`
}

// Networks returns the private networks that host names of servers may lead to.
func (s *S2SP) Networks() []netip.Prefix {
	var list []netip.Prefix
	for _, network := range s.Private {
		if p, err := netip.ParsePrefix(network); err == nil { // Load has validated it
			list = append(list, p)
		}
	}
	return list
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
