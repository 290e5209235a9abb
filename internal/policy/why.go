package policy

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/catalog/primitive"
	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/dispatch"
	"github.com/weir-mcp/weir/internal/identity"
	"github.com/weir-mcp/weir/internal/metatool/tools"
)

// Calls are questions about a configuration's policy; no call is made.
type Calls struct {
	config *config.Config
	policy *dispatch.Policy
}

// CallsOf returns the questions about a configuration.
func CallsOf(c *config.Config) *Calls { return &Calls{c, policyOf(c.Policy)} }

// CheckProfile returns an error if the configuration has no profile of a name.
func (c *Calls) CheckProfile(name string) error {
	var names []string
	for _, p := range c.config.Profiles {
		if names = append(names, p.Name); p.Name == name {
			return nil
		}
	}
	return fmt.Errorf("there is no profile %q; profiles of the configuration: %s", name, cmp.Or(strings.Join(names, ", "), "none"))
}

// Hidden says why the profile of a call does not show its tool to the caller, "" if it does.
func (c *Calls) Hidden(q Call) string {
	switch {
	case q.Profile == "":
		return ""
	case !OpensProfile(c.config, q.Profile, q.identity()):
		return fmt.Sprintf("the profile %s is not for this caller", q.Profile)
	}
	for _, p := range profilesOf(c.config.Profiles) {
		if p.Name == q.Profile && !p.Has(q.subject(q.URI).Entry) {
			return fmt.Sprintf("the profile %s does not have it", q.Profile)
		}
	}
	return ""
}

// Call is a call that is not made.
type Call struct {
	As                    string // the principal; issuer:subject of a caller with an issuer
	Groups, Roles, Scopes []string
	Claims                map[string]any
	Source, Profile       string
	Tool                  tools.Tool // its ID is set, or URI is
	URI                   string     // is read at Tool.Server
	// Known means that the tool is in the catalog, so that its tags and hints are known.
	Known bool
	Args  json.RawMessage
}

// Why returns how the policy decides about a call.
func (c *Calls) Why(q Call) dispatch.Answer {
	id := q.identity()
	ask := func(s dispatch.Subject) dispatch.Answer {
		return c.policy.Explain(dispatch.Question{Identity: id, Source: q.Source, Profile: q.Profile, Subject: s, Args: q.Args, Now: time.Now()})
	}
	s := q.subject(q.URI)
	s.Odd = dispatch.Unclear(q.URI)
	out := ask(s)
	if q.URI != "" { // a read is judged in each spelling of its URI, and the strictest verdict counts
		for _, spelling := range dispatch.Spellings(q.URI) {
			s := q.subject(spelling.URI)
			s.Lenient = spelling.Lenient
			if one := ask(s); strictness[one.Action] > strictness[out.Action] {
				out = one
			}
		}
	}
	return out
}

// identity returns the caller.
func (q *Call) identity() *identity.Identity {
	id := &identity.Identity{Principal: q.As, Groups: sorted(q.Groups), Roles: sorted(q.Roles), Scopes: sorted(q.Scopes), Claims: q.Claims}
	if issuer, _, found := strings.Cut(q.As, ":"); found && issuer != "cert" {
		id.Issuer = issuer
	}
	return id
}

var strictness = map[dispatch.Action]int{dispatch.Allow: 0, dispatch.RequireApproval: 1, dispatch.Deny: 2}

// subject returns the entry of a call. A URI is read; all else is a tool.
func (q *Call) subject(uri string) dispatch.Subject {
	t := &q.Tool
	e := &catalog.Entry{
		ID: t.ID, Kind: primitive.KindTool, Upstream: t.Server, RawName: t.Name, URI: uri,
		Tags: sorted(t.Tags), ReadOnly: t.ReadOnly, Destructive: t.Destructive, Idempotent: t.Idempotent, OpenWorld: t.OpenWorld,
	}
	namespace, name, found := strings.Cut(t.ID, ":")
	if found {
		e.Namespace, e.Name = namespace, name
	}
	if i := strings.IndexAny(e.Name, "#@"); i > 0 {
		e.Name = e.Name[:i]
	}
	if e.Short = e.Namespace + ":" + e.Name; e.RawName == "" {
		e.RawName = e.Name
	}
	if e.Upstream == "" {
		e.Upstream = e.Namespace
	}
	if uri != "" {
		e.Kind, e.RawName, e.Namespace = primitive.KindResource, uri, catalog.MapNamespace(t.Server)
		e.ID = "resource::" + e.Namespace + ":" + uri
		e.Upstream, e.Short = t.Server, ""
	}
	s := dispatch.Subject{Entry: e, URI: uri}
	if !q.Known {
		s.Known = dispatch.KnownName
	}
	return s
}

func sorted(list []string) []string {
	list = slices.Clone(list)
	slices.Sort(list)
	return slices.Compact(list)
}
