package config

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weir-mcp/weir/internal/access/authz"
	"github.com/weir-mcp/weir/internal/json/strict"
)

// Action is the decision of a policy about a call.
type Action string

// The actions.
const (
	ActionAllow           Action = "allow"
	ActionDeny            Action = "deny"
	ActionRequireApproval Action = "require_approval"
)

// Policy decides which calls are made. The first rule that matches counts.
type Policy struct {
	Default Action       `key:"default" default:"allow" enum:"allow,deny,require_approval" doc:"What happens to calls of tools that no rule matches."`
	Rules   []PolicyRule `key:"rules" empty:"same" doc:"Rules in order; the first that matches counts."`

	Hide bool `key:"hide" default:"false" doc:"Entries that a caller could not call with any arguments do not exist for that caller: no list and no search has them, and a call of one is answered as a call of an unknown name."`

	ApprovalWait time.Duration `key:"approval_wait" default:"5m" min:"0s" max:"1h" doc:"How long a call that needs approval waits for weir approve if its client cannot ask a person; 0 refuses it at once."`
}

// PolicyRule matches calls by everything that is set in it.
type PolicyRule struct {
	Action     Action   `key:"action" enum:"allow,deny,require_approval" doc:"What happens to the call. require_approval: the person at the client is asked. If the client cannot ask, the call waits for an operator: see approval_wait."`
	MetaTool   string   `key:"meta_tool" enum:"tool_browse,tool_execute,tool_view,tool_run,tool_hydrate,resource_browse,resource_read,prompt_browse,prompt_get" doc:"The only meta-tool that the rule is about. Default: those that run or read something of a server."`
	Namespace  string   `key:"namespace" doc:"Namespace of the tool."`
	Tool       string   `key:"tool" doc:"Pattern for the tool_id or the server's own name of the tool, or for the URI that is read. * stands for any text, ? for one character."`
	Tags       []string `key:"tags" empty:"refused" doc:"Tags that the tool must have, all of them."`
	ReadOnly   *bool    `key:"read_only" doc:"Only tools that declare themselves read-only (true), or only others (false)."`
	Groups     []string `key:"groups" empty:"refused" doc:"Groups of the caller, of which one is enough. Where the issuer left groups out of a token, the rule does not allow, and it denies or asks."`
	Principals []string `key:"principals" empty:"refused" doc:"Principals, of which one is enough: names of tokens, issuer:subject, or cert:name. * stands for any text, ? for one character."`
	Roles      []string `key:"roles" empty:"refused" doc:"Roles of auth.roles, of which the caller has one."`
	Scopes     []string `key:"scopes" empty:"refused" doc:"Scopes that the caller's token has, all of them. A caller of an issuer that lacks some is told which ones the call needs."`
	Profile    string   `key:"profile" doc:"The profile at whose URL the call is made; * stands for any text, ? for one character. The rule matches no call outside of profiles."`
	When       string   `key:"when" doc:"Expression in CEL that must be true; docs/policy.md lists its variables. Where it fails, as a missing argument makes it, the rule does not allow, and it denies or asks."`
	Observe    bool     `key:"observe" default:"false" doc:"Only log what the rule would decide; the rules after it decide."`
	Reason     string   `key:"reason" doc:"Shown to the agent, and to the person who is asked."`
}

func checkPolicy(d *strict.Decoder, p *Policy) {
	for i := range p.Rules {
		r := &p.Rules[i]
		path := "policy.rules[" + strconv.Itoa(i) + "]"
		if r.Action == "" && !d.Set(strict.Join(path, "action")) {
			d.Fail(d.At(path), path, "%s has no action; give allow, deny or require_approval", path)
		}
		about := r.Namespace != "" || r.Tool != "" || len(r.Tags) > 0 || r.ReadOnly != nil
		switch r.MetaTool {
		case "tool_browse", "tool_view", "tool_run", "resource_browse", "prompt_browse":
			if about {
				d.Fail(d.At(path), path, "%s would never match: %s is about no tool, so it has no namespace, name, tags or read_only", path, r.MetaTool)
			}
		}
		r.Reason = strings.Join(strings.Fields(r.Reason), " ") // YAML's block texts end with a line end
		for key, texts := range map[string][]string{"namespace": {r.Namespace}, "tool": {r.Tool}, "reason": {r.Reason}, "tags": r.Tags} {
			if key = strict.Join(path, key); slices.ContainsFunc(texts, func(s string) bool { return strings.ContainsFunc(s, control) }) {
				d.Fail(d.At(key), key, "%s holds a control character", key)
			}
		}
		if slices.Contains(r.Tags, "") {
			d.Fail(d.At(strict.Join(path, "tags")), strict.Join(path, "tags"), "%s.tags holds an empty tag", path)
		}
		checkCondition(d, r, path)
	}
}

// checkCondition refuses conditions that could never hold, and warns of those that trust a server.
func checkCondition(d *strict.Decoder, r *PolicyRule, path string) {
	for key, texts := range map[string][]string{"groups": r.Groups, "principals": r.Principals, "roles": r.Roles, "scopes": r.Scopes} {
		if key = strict.Join(path, key); slices.ContainsFunc(texts, func(s string) bool { return s == "" || strings.ContainsFunc(s, control) }) {
			d.Fail(d.At(key), key, "%s holds an empty text or a control character", key)
		}
	}
	for _, scope := range r.Scopes {
		if key := strict.Join(path, "scopes"); strings.ContainsAny(scope, " \"\\") {
			d.Fail(d.At(key), key, "%s: %q is no scope: it has a space, a quote or a backslash; write one scope per element", key, strict.Clip(scope))
		}
	}
	key, hinted := strict.Join(path, "read_only"), r.ReadOnly != nil && *r.ReadOnly
	if r.When != "" {
		at := strict.Join(path, "when")
		x, err := authz.Compile(r.When)
		var syntax *authz.SyntaxError
		switch {
		case errors.As(err, &syntax):
			d.Fail(d.At(at), at, "%s: line %d, column %d of the expression: %s", at, syntax.Line, syntax.Column, syntax.Message)
		case err != nil:
			d.Fail(d.At(at), at, "%s: %v", at, err)
		case len(x.Hints()) > 0:
			key, hinted = at, true
		}
	}
	if hinted && r.Action == ActionAllow {
		d.Warn(d.At(key), key, "%s allows calls by what a server says of its own tools, which weir does not verify; name the tools where it matters", key)
	}
}
