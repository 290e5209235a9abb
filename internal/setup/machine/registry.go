package machine

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/weir-mcp/weir/internal/gateway"
	"github.com/weir-mcp/weir/internal/setup"
	"github.com/weir-mcp/weir/internal/setup/clients"
	"github.com/weir-mcp/weir/internal/setup/mcpregistry"
	"github.com/weir-mcp/weir/internal/text"
	"github.com/weir-mcp/weir/internal/web/api"
	"github.com/weir-mcp/weir/mcp"
)

// registry is the MCP Registry as a running gateway asks it. It implements api.Registry.
type registry struct {
	Options
	gateway *gateway.Gateway
}

// client returns the registry of the configuration.
func (s *registry) client() (*mcpregistry.Client, error) {
	state, err := files(s.LookupEnv).State()
	if err != nil {
		return nil, err
	}
	return mcpregistry.New(mcpregistry.Options{URL: s.gateway.Config().Registry.URL, CacheDir: filepath.Join(state, "registry")})
}

// registryHits bounds the servers of a search.
const registryHits = 20

// Search implements api.Registry.
func (s *registry) Search(ctx context.Context, words string) (api.Published, error) {
	out := api.Published{Servers: []api.PublishedServer{}}
	published, err := s.client()
	if err != nil {
		return out, err
	}
	hits, age, err := published.Search(ctx, words, registryHits)
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
func (s *registry) plan(ctx context.Context, m *setup.Machine, given api.Addition) (p *setup.Plan, asked []api.Question, published string, err error) {
	client, err := s.client()
	if err != nil {
		return nil, nil, "", err
	}
	server, _, err := client.Latest(ctx, given.Published)
	if err != nil {
		return nil, nil, "", err
	}
	document, err := json.Marshal(server)
	if err != nil {
		return nil, nil, "", err
	}
	published = fmt.Sprintf(".%x", sha256.Sum256(document))
	plan, err := RunsHere(server)
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
	p, err = PlanPublished(m, plan, given.Name, given.Answers)
	if err != nil {
		return nil, nil, "", err
	}
	if plan.Warning != "" {
		p.Notes = append(p.Notes, clients.Note{Text: plan.Warning})
	}
	p.Notes = append(p.Notes, clients.Note{Text: server.Name + " " + server.Version + ", " + plan.Kind})
	return p, asked, published, nil
}

// RunsHere plans how a server of the registry runs on this machine.
func RunsHere(server mcpregistry.Server) (*mcpregistry.Plan, error) {
	return mcpregistry.NewPlan(server, mcpregistry.Machine{Has: func(program string) bool {
		_, err := exec.LookPath(program)
		return err == nil
	}})
}

// ErrAnswers is the error for answers that a server of the registry cannot run with.
var ErrAnswers = errors.New("the settings do not fit")

// PlanPublished plans to add a server of the registry with some answers. name is its name; "" is the
// end of its id.
func PlanPublished(m *setup.Machine, plan *mcpregistry.Plan, name string, answers map[string]string) (*setup.Plan, error) {
	entry, err := plan.Fill(answers)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrAnswers, err)
	}
	if name == "" {
		name = plan.Server[strings.LastIndexByte(plan.Server, '/')+1:]
	}
	var secrets []clients.Secret
	for _, q := range plan.Questions {
		if q.Secret && answers[q.ID] != "" {
			secrets = append(secrets, clients.Secret{Name: q.ID, Value: answers[q.ID], Where: []string{name + "." + q.ID}})
		}
	}
	s := clients.Server{Client: "registry", Name: name, Transport: clients.Stdio, Command: entry.Command, Args: entry.Args, Env: entry.Env, URL: entry.URL, Headers: entry.Headers}
	if entry.URL != "" {
		s.Transport = clients.HTTP
		if entry.Type == string(clients.SSE) {
			s.Transport = clients.SSE
		}
	}
	return m.Add(s, secrets...)
}
