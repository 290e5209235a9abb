package metatool

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/catalog/primitive"
	"github.com/weir-mcp/weir/internal/identity"
	"github.com/weir-mcp/weir/internal/text"
)

// Profile is a part of the catalog that requests with its name in their [identity.Route] see. It takes
// entries away and adds none: what the policy hides stays hidden, and every call is still judged.
type Profile struct {
	Name string
	// Include and Exclude are patterns SERVER:TOOL, with "*" for any text and "?" for one character.
	// SERVER is the name of a server or its namespace, TOOL the server's name for a tool or the name
	// in its id. SERVER:* stands for all entries of a server, other patterns only for tools. An
	// entry belongs to the profile if Include is empty or has it, and Exclude has it not.
	Include, Exclude []string
	// Mode is the mode for agents that ask for none; nil is the mode of the gateway.
	Mode *Mode
}

// Has reports whether an entry belongs to the profile.
func (p *Profile) Has(e *catalog.Entry) bool {
	s := extent{include: patternsOf(p.Include), exclude: patternsOf(p.Exclude)}
	return s.has(e)
}

// viewer is a caller at a place: all requests of a viewer see the same entries.
type viewer struct {
	id      *identity.Identity // nil: a caller without an identity
	profile string             // "" is the whole catalog
}

// viewerOf returns the viewer who makes a request.
func viewerOf(ctx context.Context) viewer {
	return viewer{identity.From(ctx), identity.RouteOf(ctx).Profile}
}

// entryPattern is a pattern of a Profile.
type entryPattern struct{ server, entry string }

func patternsOf(texts []string) (list []entryPattern) {
	for _, text := range texts {
		server, entry, _ := strings.Cut(text, ":") // the configuration was checked
		list = append(list, entryPattern{server, entry})
	}
	return list
}

// everything is the TOOL of a pattern that stands for all entries of a server.
const everything = "*"

// about reports whether the pattern is about a server.
func (x entryPattern) about(upstream, namespace string) bool {
	return text.Match(x.server, upstream) || text.Match(x.server, namespace)
}

// covers reports whether the pattern stands for all entries of a server.
func (x entryPattern) covers(upstream, namespace string) bool {
	return x.entry == everything && x.about(upstream, namespace)
}

// has reports whether the pattern stands for an entry.
func (x entryPattern) has(e *catalog.Entry) bool {
	switch {
	case !x.about(e.Upstream, e.Namespace):
		return false
	case x.entry == everything:
		return true
	case e.Kind != primitive.KindTool:
		return false
	}
	return text.Match(x.entry, e.RawName) || text.Match(x.entry, e.Name) || text.Match(x.entry, strings.TrimPrefix(e.ID, e.Namespace+":"))
}

// extent decides which entries a profile has. A nil extent has all.
type extent struct {
	include, exclude []entryPattern
	none             bool // it is of a profile that does not exist
}

// extentOf returns the extent of a profile and the profile; "" has all. A name without a
// profile selects nothing: the profile was removed while requests for it were on their way.
func extentOf(profiles []Profile, name string) (*extent, *Profile) {
	if name == "" {
		return nil, nil
	}
	i := slices.IndexFunc(profiles, func(p Profile) bool { return p.Name == name })
	if i < 0 {
		return &extent{none: true}, nil
	}
	return &extent{include: patternsOf(profiles[i].Include), exclude: patternsOf(profiles[i].Exclude)}, &profiles[i]
}

// has reports whether an entry is selected.
func (s *extent) has(e *catalog.Entry) bool {
	return s.admits(func(x entryPattern) bool { return x.has(e) }, func(x entryPattern) bool { return x.has(e) })
}

// reads reports whether URIs of a server are selected that it does not list.
func (s *extent) reads(upstream, namespace string) bool {
	covers := func(x entryPattern) bool { return x.covers(upstream, namespace) }
	return s.admits(covers, covers)
}

// mayHave reports whether a server may have an entry that is selected.
func (s *extent) mayHave(upstream, namespace string) bool {
	return s.admits(func(x entryPattern) bool { return x.about(upstream, namespace) }, func(x entryPattern) bool { return x.covers(upstream, namespace) })
}

// admits reports whether included holds for a pattern of include, if there are any, and excluded for
// none of exclude.
func (s *extent) admits(included, excluded func(entryPattern) bool) bool {
	switch {
	case s == nil:
		return true
	case s.none:
		return false
	}
	return (len(s.include) == 0 || slices.ContainsFunc(s.include, included)) && !slices.ContainsFunc(s.exclude, excluded)
}

// UnmatchedProfiles returns, one sentence each, the patterns of profiles that match no entry of a
// catalog, most likely because of a misspelling.
func UnmatchedProfiles(c *catalog.Catalog, profiles []Profile) (list []string) {
	for _, p := range profiles {
		for _, of := range []struct {
			key      string
			patterns []string
		}{{"include", p.Include}, {"exclude", p.Exclude}} {
			for i, x := range patternsOf(of.patterns) {
				if !slices.ContainsFunc(c.Entries(), x.has) {
					list = append(list, fmt.Sprintf("profiles.%s.%s[%d] (%q) matches nothing that there is", p.Name, of.key, i, of.patterns[i]))
				}
			}
		}
	}
	return list
}
