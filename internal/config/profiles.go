package config

import (
	"slices"
	"strconv"
	"strings"

	"github.com/weir-mcp/weir/internal/identity"
	"github.com/weir-mcp/weir/internal/json/strict"
	"github.com/weir-mcp/weir/internal/text"
	"github.com/weir-mcp/weir/internal/text/lazy"
)

// Profile is a part of the catalog with a URL of its own. It narrows the catalog of its callers, and
// never widens it: the policy holds there as elsewhere.
type Profile struct {
	// Name is the key in profiles. It stands in URLs: /mcp/{name}.
	Name string

	Include    []string `key:"include" empty:"refused" doc:"Patterns SERVER:TOOL of what the profile has. SERVER is a server's name or namespace; SERVER:* is everything of it, resources and prompts, too; other patterns are about tools alone. * stands for any text, ? for one character. Default: everything."`
	Exclude    []string `key:"exclude" empty:"same" doc:"Patterns of what the profile has not, whatever include says."`
	Mode       Mode     `key:"mode" enum:"auto,plain,gateway,proxy" doc:"The mode for agents that ask for none. Default: the top-level mode."`
	Groups     []string `key:"groups" empty:"refused" doc:"Groups whose members may open the profile. Without groups and principals, every caller may."`
	Principals []string `key:"principals" empty:"refused" doc:"Principals that may open the profile; * stands for any text, ? for one character. A caller needs to be one of them, or in one of the groups."`
}

// profileName matches the names of profiles: one segment of a path.
var profileName = lazy.Pattern(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// IsProfileName reports whether a profile may have a name.
func IsProfileName(name string) bool { return profileName().MatchString(name) }

// checkProfiles checks the profiles, and the rules of the policy that name them.
func checkProfiles(d *strict.Decoder, c *Config) {
	for _, p := range c.Profiles {
		at := "profiles." + p.Name
		switch server := slices.IndexFunc(c.Servers, func(s *Server) bool { return strings.EqualFold(s.Name, p.Name) }); {
		case !IsProfileName(p.Name):
			d.Fail(d.At(at), at, "%s: the name stands in the URL /mcp/NAME, so it has 1 to 64 letters, digits, dots, dashes and underscores", strict.Clip(at))
		case strings.EqualFold(p.Name, "mcp"):
			d.Fail(d.At(at), at, "%s: the name mcp is taken: /mcp/mcp would read like an endpoint of its own; give the profile another name", at)
		case c.Cards && strings.EqualFold(p.Name, "server-card"):
			d.Fail(d.At(at), at, "%s has the URL of the server card, /mcp/server-card; give the profile another name, or leave out cards", at)
		case server >= 0:
			d.Fail(d.At(at), at, "%s has the name of mcpServers.%s: /mcp/%s would be the profile, and /mcp/%s/mcp the whole server; give the profile another name", at, c.Servers[server].Name, p.Name, c.Servers[server].Name)
		}
		for key, list := range map[string][]string{"include": p.Include, "exclude": p.Exclude} {
			for i, pattern := range list {
				path := strict.Join(at, key)
				if server, tool, ok := strings.Cut(pattern, ":"); !ok || server == "" || tool == "" || strings.ContainsFunc(pattern, control) {
					d.Fail(d.At(path), path, "%s[%d]: %q is no pattern SERVER:TOOL; kb:* is everything of the server kb, and kb:get_* its tools that begin with get_", path, i, strict.Clip(pattern))
				}
			}
		}
		for key, list := range map[string][]string{"groups": p.Groups, "principals": p.Principals} {
			if key = strict.Join(at, key); slices.ContainsFunc(list, func(s string) bool { return s == "" || strings.ContainsFunc(s, control) }) {
				d.Fail(d.At(key), key, "%s holds an empty text or a control character", key)
			}
		}
		closed := len(p.Groups)+len(p.Principals) > 0 && !slices.ContainsFunc(p.Principals, func(x string) bool { return text.Match(x, identity.Local) })
		if closed && !c.Auth.Required() {
			d.Warn(d.At(at), at, "%s is for callers of its groups and principals, and without auth there is only the caller %s: nothing opens it", at, identity.Local)
		}
	}
	for i := range c.Policy.Rules {
		path := "policy.rules[" + strconv.Itoa(i) + "].profile"
		name := c.Policy.Rules[i].Profile
		if name != "" && !slices.ContainsFunc(c.Profiles, func(p *Profile) bool { return text.Match(name, p.Name) }) {
			d.Fail(d.At(path), path, "%s: there is no profile %q; profiles lists them", path, strict.Clip(name))
		}
	}
}
