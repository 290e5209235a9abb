package policy

import (
	"github.com/weir-mcp/weir/internal/access/authz"
	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/dispatch"
)

// policyOf returns nil if the configuration allows everything, so that calls skip the check.
func policyOf(p config.Policy) *dispatch.Policy {
	if len(p.Rules) == 0 && (p.Default == config.ActionAllow || p.Default == "") {
		return nil
	}
	policy := &dispatch.Policy{Default: dispatch.Action(p.Default), Hide: p.Hide}
	for i := range p.Rules {
		r := &p.Rules[i]
		policy.Rules = append(policy.Rules, dispatch.PolicyRule{
			Action: dispatch.Action(r.Action), MetaTool: r.MetaTool, Namespace: r.Namespace, Tool: r.Tool, Tags: r.Tags, ReadOnly: r.ReadOnly,
			If: conditionOf(r), Observe: r.Observe, Reason: r.Reason,
		})
	}
	return policy
}

// conditionOf returns nil for a rule that asks nothing of the caller and of the request.
func conditionOf(r *config.PolicyRule) *authz.Condition {
	if len(r.Groups)+len(r.Principals)+len(r.Roles)+len(r.Scopes) == 0 && r.Profile == "" && r.When == "" {
		return nil
	}
	c := &authz.Condition{Groups: r.Groups, Principals: r.Principals, Roles: r.Roles, Scopes: r.Scopes, Profile: r.Profile}
	if r.When != "" {
		x, err := authz.Compile(r.When)
		if err != nil { // impossible: the configuration was checked
			x = &authz.Expression{}
		}
		c.When = x
	}
	return c
}
