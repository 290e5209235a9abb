package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/host/place"
	"github.com/weir-mcp/weir/internal/setup"
	"github.com/weir-mcp/weir/internal/setup/bundle"
	"github.com/weir-mcp/weir/internal/setup/clients"
	"github.com/weir-mcp/weir/internal/setup/mcpregistry"
	"github.com/weir-mcp/weir/internal/text"
)

// maxDocument bounds a server.json, in bytes.
const maxDocument = 1 << 20

// isBundle reports whether a file is a bundle, by its name.
func isBundle(name string) bool {
	ext := strings.ToLower(filepath.Ext(name))
	return ext == ".mcpb" || ext == ".dxt"
}

// noOtherFlags refuses flags about things that a bundle or a document says itself.
func (r addRequest) noOtherFlags(what string) error {
	if len(r.headers) > 0 || r.cwd != "" || r.kind != "" {
		return fmt.Errorf("%s says everything of its server: leave --header, --cwd and --type out", what)
	}
	return nil
}

// addBundle plans to add the server of a bundle. The bundle is unpacked when the plan is carried out.
func addBundle(a *process, ctx context.Context, m *setup.Machine, file string, r addRequest) (*setup.Plan, error) {
	if len(r.env) > 0 {
		return nil, errors.New("a bundle names its variables itself: give settings with --set KEY=VALUE")
	}
	if err := r.noOtherFlags("a bundle"); err != nil {
		return nil, err
	}
	b, err := bundle.Open(file)
	if err != nil {
		return nil, err
	}
	defer b.Close()
	manifest, here := b.Manifest, m.Place()
	questions := manifest.Questions(here)
	answers, err := givenSettings(manifest.Name, questions, r.set)
	if err != nil {
		return nil, err
	}
	if err := askBundle(a, ctx, manifest.Name, questions, answers); err != nil {
		return nil, err
	}
	dir := filepath.Join(m.Bundles, b.Folder())
	command, err := manifest.Command(dir, here, answers)
	if err != nil {
		return nil, err
	}
	name := r.name
	if name == "" {
		name = strings.ReplaceAll(manifest.Name[strings.LastIndexByte(manifest.Name, '/')+1:], " ", "-")
	}
	var secrets []clients.Secret
	for _, q := range questions {
		if value := answers[q.ID]; q.Secret != "" && len(value) > 0 {
			secrets = append(secrets, clients.Secret{Name: q.Secret, Value: value[0], Where: []string{name + "." + q.ID}})
		}
	}
	p, err := m.Add(clients.Server{
		Client: "bundle", Name: name, Transport: clients.Stdio, Command: command.Command, Args: command.Args, Env: command.Env,
	}, secrets...)
	if err != nil {
		return nil, err
	}
	sum := b.SHA256
	p.Folder = &setup.Folder{Path: dir, Make: func() error { return unpack(file, sum, m.Bundles) }}
	p.Notes = append(p.Notes, clients.Note{Server: name, Text: origin(b)}, clients.Note{Server: name, Text: "its files go into " + dir})
	return p, nil
}

// origin returns the name, version and author of a bundle, in its own words, with its hash.
func origin(b *bundle.Bundle) string {
	by := ""
	if author := text.Line(b.Manifest.Author.Name, 80); author != "" {
		by = " by " + author
	}
	signed := "it is not signed"
	if b.Signed {
		signed = "its signature is not checked"
	}
	return fmt.Sprintf("%s %s%s, SHA-256 %s; %s", b.Manifest.Name, b.Manifest.Version, by, b.SHA256, signed)
}

// unpack unpacks a bundle below dir, if it is still the file with the given SHA-256.
func unpack(file, sum, dir string) error {
	b, err := bundle.Open(file)
	if err != nil {
		return err
	}
	defer b.Close()
	if b.SHA256 != sum {
		return fmt.Errorf("%s has changed since the plan was made; nothing has changed", file)
	}
	if err := place.MakeFolder(dir); err != nil {
		return err
	}
	_, err = b.Extract(dir)
	return err
}

// givenSettings returns the answers that --set gives, by question.
func givenSettings(name string, questions []bundle.Question, given []string) (map[string][]string, error) {
	answers := map[string][]string{}
	for _, pair := range given {
		key, value, ok := strings.Cut(pair, "=")
		if !ok || key == "" {
			return nil, errors.New("--set must be KEY=VALUE")
		}
		at := slices.IndexFunc(questions, func(q bundle.Question) bool { return q.ID == key })
		if at < 0 {
			var ids []string
			for _, q := range questions {
				ids = append(ids, q.ID)
			}
			if len(ids) == 0 {
				ids = []string{"none"}
			}
			return nil, fmt.Errorf("%s has no setting %q; it has: %s", name, key, strings.Join(ids, ", "))
		}
		if value == "" {
			continue
		}
		if err := questions[at].Check(value); err != nil {
			return nil, fmt.Errorf("--set %s: %w", key, err)
		}
		answers[key] = append(answers[key], value)
	}
	return answers, nil
}

// askBundle asks for the settings that have no answer yet. Without a terminal, or if the input ends,
// a missing one that is required is an error.
func askBundle(a *process, ctx context.Context, name string, questions []bundle.Question, answers map[string][]string) error {
	person, asks := newQuestions(a)
	var missing []string
	for _, q := range questions {
		if len(answers[q.ID]) > 0 {
			continue
		}
		if asks {
			given, err := askSetting(person, ctx, q)
			if err != nil {
				return err
			}
			answers[q.ID] = given
		}
		if len(answers[q.ID]) == 0 && q.Required && len(q.Default) == 0 {
			missing = append(missing, "--set "+q.ID+"=VALUE")
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("%s needs settings: give them with %s", name, strings.Join(missing, " "))
	}
	return nil
}

// askSetting asks a person for one setting until the answer is valid. No answer means the default.
func askSetting(person *questions, ctx context.Context, q bundle.Question) (answers []string, err error) {
	in := config.Input{ID: q.ID, Description: q.Title, Password: q.Secret != ""}
	if in.Description == "" {
		in.Description = q.ID
	}
	if q.Description != "" {
		in.Description += " (" + text.Line(q.Description, 300) + ")"
	}
	if q.Multiple {
		in.Description += ", one at a time; an empty line ends"
	}
	if q.Type == "boolean" {
		in.Options = []string{"true", "false"}
	}
	if len(q.Default) > 0 {
		all := strings.Join(q.Default, ", ")
		in.Default = &all
	}
	for {
		answer, ok, err := person.ask(ctx, in)
		if err != nil || !ok {
			return answers, err
		}
		if err := q.Check(answer); err != nil {
			fmt.Fprintf(person.a.stderr, "No: %v.\n", err)
			continue
		}
		answers, in.Default = append(answers, answer), nil
		if !q.Multiple || q.Secret != "" {
			return answers, nil
		}
	}
}

// readDocument reads a file that is a document of the MCP Registry. ok is false for other files.
func readDocument(name string) (s mcpregistry.Server, ok bool, err error) {
	if !strings.EqualFold(filepath.Ext(name), ".json") {
		return s, false, nil
	}
	f, err := os.Open(name)
	if err != nil {
		return s, false, nil // The reader of clients' files reports the fault.
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxDocument+1))
	if err != nil || len(data) > maxDocument || !isDocument(data) {
		return s, false, nil
	}
	if s, err = mcpregistry.ParseServer(data); err != nil {
		return s, false, fmt.Errorf("%s: %w", name, err)
	}
	return s, true, nil
}

// isDocument reports whether a JSON text has the keys of a server.json, bare or as the registry wraps
// it, and none of a client's file.
func isDocument(data []byte) bool {
	var keys map[string]json.RawMessage
	if json.Unmarshal(data, &keys) != nil {
		return false
	}
	if inner, wrapped := keys["server"]; wrapped {
		keys = nil
		if json.Unmarshal(inner, &keys) != nil {
			return false
		}
	}
	_, named := keys["name"]
	_, packages := keys["packages"]
	_, remotes := keys["remotes"]
	_, client := keys["mcpServers"]
	return named && (packages || remotes) && !client
}

// addDocument plans to add the server of a server.json.
func addDocument(a *process, ctx context.Context, m *setup.Machine, server mcpregistry.Server, r addRequest) (*setup.Plan, error) {
	if err := r.noOtherFlags("a server.json"); err != nil {
		return nil, err
	}
	if server.Status == "deleted" {
		return nil, fmt.Errorf("%s has been deleted from the registry: %s", server.Name, text.Line(server.StatusMessage, 200))
	}
	return addPublished(a, ctx, m, server, r)
}
