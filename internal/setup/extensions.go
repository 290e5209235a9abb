package setup

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/weir-mcp/weir/internal/json/splice"
	"github.com/weir-mcp/weir/internal/setup/bundle"
	"github.com/weir-mcp/weir/internal/setup/clients"
)

// ClaudeExtensions is the word for the extensions of Claude Desktop in commands.
const ClaudeExtensions = "claude-extensions"

// extensionsClient is Claude Desktop in plans, as far as it has extensions.
var extensionsClient = &clients.Client{ID: ClaudeExtensions, Name: "Claude Desktop's extensions", Format: splice.JSON}

// sealedSetting starts the value of a setting that only Claude Desktop can read.
const sealedSetting = "__encrypted__:"

// Answerer returns the answers of a person to questions of an extension. It is called for settings
// that Claude Desktop has sealed, and for required ones without a value.
type Answerer func(name string, questions []bundle.Question) (map[string][]string, error)

// Extensions reads the extensions that are installed in Claude Desktop: unpacked bundles, and for
// each a file with the person's settings. ok is false if there are none. The secrets are the answers
// to questions of the extensions. ask may be nil; an extension that needs it then has the reason in
// Stay.
//
//	Claude/Claude Extensions/ID/manifest.json
//	Claude/Claude Extensions Settings/ID.json   {"isEnabled": true, "userConfig": {…}}
func (m *Machine) Extensions(ask Answerer) (s Source, secrets []clients.Secret, ok bool) {
	s = Source{Client: extensionsClient, Elsewhere: true}
	for _, folder := range m.Env.Extensions() {
		s.File, s.Exists = filepath.Dir(folder), true
		id := filepath.Base(folder)
		manifest, err := bundle.ReadFolder(folder)
		if err != nil {
			s.Notes = append(s.Notes, clients.Note{Client: ClaudeExtensions, Server: id, Text: "it is not read: " + err.Error()})
			continue
		}
		settings := filepath.Join(filepath.Dir(filepath.Dir(folder)), "Claude Extensions Settings", id+".json")
		x := extension{manifest: manifest, folder: folder, here: m.Place(), ask: ask}
		server, values := x.server(settings)
		s.Servers, secrets = append(s.Servers, server), append(secrets, values...)
		if server.Stay == "" && !server.Disabled {
			s.Notes = append(s.Notes, clients.Note{Client: ClaudeExtensions, Server: server.Name, Text: "it runs in Claude Desktop as well until you switch it off there"})
		}
	}
	return s, secrets, s.Exists
}

// extension is one extension of Claude Desktop.
type extension struct {
	manifest *bundle.Manifest
	folder   string
	here     bundle.Place
	ask      Answerer
}

// server returns the extension as a server, with the secrets that its texts name.
func (x extension) server(settings string) (s clients.Server, secrets []clients.Secret) {
	name := x.manifest.Name
	s = clients.Server{Client: ClaudeExtensions, Name: name[strings.LastIndexByte(name, '/')+1:], Transport: clients.Stdio, Path: splice.Path{filepath.Base(x.folder)}}
	values, enabled, err := readSettings(settings)
	if err != nil {
		s.Stay = err.Error()
		return s, nil
	}
	s.Disabled = !enabled
	var missing []bundle.Question
	questions := x.manifest.Questions(x.here)
	for _, q := range questions {
		sealed := slices.ContainsFunc(values[q.ID], func(text string) bool { return strings.HasPrefix(text, sealedSetting) })
		if sealed {
			delete(values, q.ID)
		}
		if sealed || q.Required && len(values[q.ID]) == 0 && len(q.Default) == 0 {
			missing = append(missing, q)
		}
	}
	switch {
	case len(missing) == 0:
	case s.Disabled: // no question for an extension that is off
		s.Stay = "it is switched off, and its settings are not known"
		return s, nil
	case x.ask == nil:
		s.Stay = fmt.Sprintf("Claude Desktop keeps its setting %q sealed; weir import %s at a terminal asks for it", missing[0].ID, ClaudeExtensions)
		return s, nil
	default:
		given, err := x.ask(name, missing)
		if err != nil {
			s.Stay = err.Error()
			return s, nil
		}
		for id, texts := range given {
			values[id] = texts
		}
	}
	command, err := x.manifest.Command(x.folder, x.here, values)
	if err != nil {
		s.Stay = err.Error()
		return s, nil
	}
	s.Command, s.Args, s.Env = command.Command, command.Args, command.Env
	for _, q := range questions {
		if texts := values[q.ID]; q.Secret != "" && len(texts) > 0 {
			secrets = append(secrets, clients.Secret{Name: q.Secret, Value: texts[0], Where: []string{s.Name + "." + q.ID}})
		}
	}
	return s, secrets
}

// readSettings reads a person's settings of an extension. Without a file it is switched off, as in
// Claude Desktop.
func readSettings(file string) (values map[string][]string, enabled bool, err error) {
	values = map[string][]string{}
	doc, exists, err := readFile(file)
	if err != nil || !exists {
		return values, false, err
	}
	tree, err := splice.Decode(doc, splice.JSON)
	if err != nil {
		return values, false, fmt.Errorf("%s: %w", file, err)
	}
	root, _ := tree.(splice.Object)
	config, _ := root.Get("userConfig").(splice.Object)
	for _, m := range config {
		if m.Value == nil {
			continue
		}
		items, isList := m.Value.([]any)
		if !isList {
			items = []any{m.Value}
		}
		for _, item := range items {
			values[m.Key] = append(values[m.Key], fmt.Sprint(item))
		}
	}
	return values, root.Get("isEnabled") == true, nil
}
