package cli

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"path/filepath"

	"github.com/weir-mcp/weir/internal/app"
	"github.com/weir-mcp/weir/internal/setup"
	"github.com/weir-mcp/weir/internal/setup/clients"
	"github.com/weir-mcp/weir/internal/setup/mcpregistry"
	"github.com/weir-mcp/weir/internal/text"
	"github.com/weir-mcp/weir/internal/web/api"
	"github.com/weir-mcp/weir/mcp"
)

// A shelf is the MCP Registry as a running gateway asks it. It implements api.Registry.
type shelf struct {
	a      *process
	engine *app.Engine
}

// client returns the registry of the configuration.
func (s *shelf) client() (*mcpregistry.Client, error) {
	state, err := places(s.a.lookupEnv).State()
	if err != nil {
		return nil, err
	}
	return mcpregistry.New(mcpregistry.Options{URL: s.engine.Config().Registry.URL, CacheDir: filepath.Join(state, "registry")})
}

// shelfHits bounds the servers of a search.
const shelfHits = 20

// Search implements api.Registry.
func (s *shelf) Search(ctx context.Context, words string) (api.Published, error) {
	out := api.Published{Servers: []api.PublishedServer{}}
	registry, err := s.client()
	if err != nil {
		return out, err
	}
	hits, age, err := registry.Search(ctx, words, shelfHits)
	if err != nil {
		return out, mcp.Errorf(mcp.KindUpstreamUnavailable, "the registry: %s", text.Line(err.Error(), 500))
	}
	for _, hit := range hits {
		out.Servers = append(out.Servers, api.PublishedServer{ID: hit.Name, Title: text.Line(hit.Title, 200), Description: text.Line(hit.Description, 500), Version: hit.Version})
	}
	out.Age = int64(age.Seconds())
	return out, nil
}

// plan plans to add a server of the registry. published binds the plan to the registry's answer.
func (s *shelf) plan(ctx context.Context, m *setup.Machine, given api.Addition) (p *setup.Plan, asked []api.Question, published string, err error) {
	registry, err := s.client()
	if err != nil {
		return nil, nil, "", err
	}
	server, _, err := registry.Latest(ctx, given.Published)
	if err != nil {
		return nil, nil, "", err
	}
	document, err := json.Marshal(server)
	if err != nil {
		return nil, nil, "", err
	}
	published = fmt.Sprintf(".%x", sha256.Sum256(document))
	plan, err := runsHere(server)
	if err != nil {
		return nil, nil, "", err
	}
	if plan.Bundle != nil {
		return nil, nil, "", mcp.Errorf(mcp.KindInvalidParams, "%s is a bundle, which has files of its own: weir add %s", text.Line(server.Name, 200), text.Line(server.Name, 200))
	}
	missing := false
	for _, q := range plan.Questions {
		asked = append(asked, api.Question{ID: q.ID, Description: q.Description, Default: q.Default, Choices: q.Choices, Secret: q.Secret, Needed: q.Required && q.Default == ""})
		missing = missing || q.Required && q.Default == "" && given.Answers[q.ID] == ""
	}
	if given.Plan && missing {
		return &setup.Plan{Import: &clients.Plan{}}, asked, published, nil
	}
	p, err = planPublished(m, plan, given.Name, given.Answers)
	if err != nil {
		return nil, nil, "", err
	}
	if plan.Warning != "" {
		p.Notes = append(p.Notes, clients.Note{Text: plan.Warning})
	}
	p.Notes = append(p.Notes, clients.Note{Text: server.Name + " " + server.Version + ", " + plan.Kind})
	return p, asked, published, nil
}
