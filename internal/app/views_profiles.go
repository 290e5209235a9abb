package app

import (
	"context"

	"github.com/weir-mcp/weir/internal/catalog/primitive"
	"github.com/weir-mcp/weir/internal/identity"
	"github.com/weir-mcp/weir/internal/policy"
)

// ProfileInfo describes a profile in the response of /catalog, as its caller sees it.
type ProfileInfo struct {
	Name      string `json:"name"`
	Path      string `json:"path"`
	Mode      string `json:"mode"`
	Tools     int    `json:"tools"`
	Resources int    `json:"resources"`
	Prompts   int    `json:"prompts"`
}

// profiles returns the profiles that the caller of a request may open; operators see all.
func (v *Views) profiles(ctx context.Context) (list []ProfileInfo) {
	c, d, id := v.config(), v.judge.Calls(), identity.From(ctx)
	if d == nil {
		return nil
	}
	for _, p := range c.Profiles {
		if !v.operates(id) && !policy.OpensProfile(c, p.Name, id) {
			continue
		}
		mode := p.Mode
		if mode == "" {
			mode = c.Mode
		}
		n := d.View(policy.AtProfile(ctx, p.Name)).Catalog.Kinds()
		list = append(list, ProfileInfo{
			Name: p.Name, Path: "/mcp/" + p.Name, Mode: string(mode),
			Tools: n[primitive.KindTool], Resources: n[primitive.KindResource] + n[primitive.KindTemplate], Prompts: n[primitive.KindPrompt],
		})
	}
	return list
}
