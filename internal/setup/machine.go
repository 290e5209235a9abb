package setup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/weir-mcp/weir/internal/json/splice"
	"github.com/weir-mcp/weir/internal/setup/bundle"
	"github.com/weir-mcp/weir/internal/setup/clients"
	"github.com/weir-mcp/weir/internal/setup/journal"
)

// maxSource bounds a file that is read, in bytes.
const maxSource = 64 << 20

// Secrets is where values of clients' files go. A caller may call the methods one at a time.
type Secrets interface {
	// Lookup returns the value of a name, and false if there is none.
	Lookup(name string) (value string, ok bool, err error)

	// Set keeps a value and says where.
	Set(name, value string) (where string, err error)

	// Remove forgets a value. A name without one is no error.
	Remove(name string) error
}

// Service is the gateway's service of the user.
type Service interface {
	// Restore makes the service as a step of the journal describes it; "" removes it.
	Restore(ctx context.Context, step string) error
}

// Machine is the computer of one person: its clients, its weir.yaml and its journal.
type Machine struct {
	Env     clients.Environment
	Journal *journal.Journal
	Secrets Secrets

	// Config is the weir.yaml that changes, which may not exist yet.
	Config string

	// Service puts back the gateway's service; nil leaves it as it is.
	Service Service

	// Bundles is the folder in which servers have their folders.
	Bundles string

	// Folders are the folders of the person, as in bundle.Place.
	Folders map[string]string

	// How is the way in which clients reach weir.
	How clients.How

	// Sandbox is what Add writes for programs: auto, off, or "" for nothing.
	Sandbox string
}

// Place returns the machine as servers of bundles see it.
func (m *Machine) Place() bundle.Place {
	return bundle.Place{OS: m.Env.OS, Home: m.Env.Home, Folders: m.Folders}
}

// Source is a file with servers.
type Source struct {
	Client  *clients.Client
	File    string
	Exists  bool
	Target  bool // weir's entry goes here
	Servers []clients.Server
	Notes   []clients.Note
	Wired   bool // weir stands in it

	// Elsewhere says that weir cannot take the servers out of the place where they are.
	Elsewhere bool

	Err error // why it cannot be read; the other fields of its contents are empty then

	doc []byte
}

// State says whether weir stands in a source, and counts its other servers.
func (s Source) State() (state string, servers int) {
	switch {
	case s.Err != nil:
		return "unreadable", len(s.Servers)
	case s.Client.Pasted():
		return "paste", len(s.Servers)
	case s.Wired:
		return "wired", len(s.Servers) - 1
	case !s.Exists:
		return "no file", len(s.Servers)
	}
	return "not wired", len(s.Servers)
}

// errNoClient is the error for a word that names neither a client nor a file.
var errNoClient = errors.New("no such client")

// Look reads the files of clients and other files with servers. Without words it reads all clients
// that the machine has. A file that cannot be read has its reason in Err.
func (m *Machine) Look(words ...string) ([]Source, error) {
	found := clients.Detect(m.Env)
	var sources []Source
	if len(words) == 0 {
		for _, f := range found {
			sources = append(sources, m.sourcesOf(f)...)
		}
		return sources, nil
	}
	for _, word := range words {
		c, ok := clients.ByID(word)
		if !ok {
			s, err := m.file(word)
			if err != nil {
				return nil, err
			}
			sources = append(sources, s)
			continue
		}
		at := slices.IndexFunc(found, func(f clients.Found) bool { return f.Client.ID == word })
		if at < 0 {
			found = append(found, clients.Found{Client: c, Target: c.DefaultFile(m.Env)})
			at = len(found) - 1
		}
		sources = append(sources, m.sourcesOf(found[at])...)
	}
	return sources, nil
}

// sourcesOf reads the files of a client. One that has no file yet has its future file.
func (m *Machine) sourcesOf(f clients.Found) []Source {
	var out []Source
	for _, file := range f.Files {
		s := m.read(f.Client, file)
		s.Target = file == f.Target || f.Client.EveryFile
		out = append(out, s)
	}
	if len(out) == 0 {
		s := Source{Client: f.Client, File: f.Target, Target: true}
		if reason := f.Client.NoFile; reason != "" {
			s.Err = fmt.Errorf("%s: there is no such file, and weir does not create it: %s. Create it in %s, then weir connect %s", f.Target, reason, f.Client.Name, f.Client.ID)
		}
		out = append(out, s)
	}
	return out
}

// read reads one file of a client.
func (m *Machine) read(c *clients.Client, file string) Source {
	s := Source{Client: c, File: file}
	if s.doc, s.Exists, s.Err = readFile(file); s.Err != nil {
		return s
	}
	if s.Servers, s.Notes, s.Err = clients.Servers(c, s.doc, m.Env); s.Err != nil {
		s.Err = fmt.Errorf("%s: %w", file, s.Err)
	}
	s.Wired = slices.ContainsFunc(s.Servers, m.How.IsOurs)
	return s
}

// readFile reads a whole file. One that is missing is empty.
func readFile(file string) (doc []byte, exists bool, err error) {
	info, err := os.Stat(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, false, nil
	case err != nil:
		return nil, false, err
	case !info.Mode().IsRegular():
		return nil, true, fmt.Errorf("%s is no regular file", file)
	case info.Size() > maxSource:
		return nil, true, fmt.Errorf("%s has %d bytes; at most %d are read", file, info.Size(), maxSource)
	}
	doc, err = os.ReadFile(file)
	return doc, true, err
}

// file reads a file that a person named. It has the form of the client whose file it is, else of
// the first client that finds servers in it.
func (m *Machine) file(name string) (Source, error) {
	format, known := formatOf(name)
	if !known {
		return Source{}, fmt.Errorf("%q: %w, and no file .json, .toml or .yaml; weir clients lists the clients", name, errNoClient)
	}
	if _, err := os.Stat(name); err != nil {
		return Source{}, fmt.Errorf("%q: %w, and no file: %w", name, errNoClient, err)
	}
	first := Source{File: name, Exists: true}
	for _, c := range formsOf(name, format) {
		form := *c
		form.ID, form.Name = "file", name
		s := m.read(&form, name)
		if s.Err == nil && len(s.Servers) > 0 {
			return s, nil
		}
		if first.Client == nil {
			first = s
		}
	}
	if first.Err == nil {
		first.Err = fmt.Errorf("%s has no MCP servers in a form that weir knows", name)
	}
	return first, first.Err
}

// formatOf returns the language of a file by its name.
func formatOf(name string) (splice.Format, bool) {
	switch strings.ToLower(filepath.Ext(name)) {
	case ".json", ".jsonc":
		return splice.JSON, true
	case ".toml":
		return splice.TOML, true
	case ".yaml", ".yml":
		return splice.YAML, true
	}
	return 0, false
}

// formsOf returns the clients whose form a file may have, the likeliest first.
func formsOf(name string, format splice.Format) []*clients.Client {
	var likely, other []*clients.Client
	for _, c := range clients.All() {
		switch {
		case c.Pasted() || c.Format != format:
		case slices.ContainsFunc(c.Project, func(p string) bool { return strings.HasSuffix(filepath.ToSlash(name), "/"+p) || name == p }):
			likely = append(likely, c)
		default:
			other = append(other, c)
		}
	}
	if format == splice.YAML {
		own := clients.OwnFile()
		other = append([]*clients.Client{own}, other...)
	}
	return append(likely, other...)
}

// own reads the servers of weir.yaml.
func (m *Machine) own() (doc []byte, servers []clients.Server, err error) {
	doc, _, err = readFile(m.Config)
	if err != nil {
		return nil, nil, err
	}
	c := clients.OwnFile()
	c.Format = m.format()
	if servers, _, err = clients.Servers(c, doc, m.Env); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", m.Config, err)
	}
	return doc, servers, nil
}

// format is the language of weir's configuration.
func (m *Machine) format() splice.Format {
	if f, ok := formatOf(m.Config); ok {
		return f
	}
	return splice.YAML
}

// Projects returns the files of clients in the folder of a project.
func (m *Machine) Projects(folder string, ids []string) ([]Source, error) {
	folder, err := filepath.Abs(folder)
	if err != nil {
		return nil, err
	}
	var out []Source
	for _, id := range ids {
		c, ok := clients.ByID(id)
		if !ok || len(c.Project) == 0 {
			return nil, fmt.Errorf("%q: %w with a file for projects", id, errNoClient)
		}
		s := m.read(c, filepath.Join(folder, filepath.FromSlash(c.Project[0])))
		s.Target = true
		out = append(out, s)
	}
	return out, nil
}
