package setup

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/weir-mcp/weir/internal/json/splice"
	"github.com/weir-mcp/weir/internal/setup/clients"
)

// DockerMCP is the word for the servers of Docker's MCP toolkit in commands.
const DockerMCP = "docker-mcp"

// dockerClient is Docker's MCP toolkit in plans.
var dockerClient = &clients.Client{ID: DockerMCP, Name: "Docker's MCP toolkit", Format: splice.YAML}

// DockerServers reads the servers that are switched on in Docker's MCP toolkit, from its folder
// ~/.docker/mcp. ok is false if there is none.
//
//	registry.yaml    the servers that are switched on
//	catalogs/*.yaml  how each of them runs
//	config.yaml      the person's settings
//	tools.yaml       the tools that are switched on
//
// A server becomes a docker run, without the toolkit. Servers that need the toolkit have the reason
// in Stay, such as a secret in the toolkit's own store.
func (m *Machine) DockerServers() (s Source, ok bool) {
	folder := filepath.Join(m.Env.Home, ".docker", "mcp")
	s = Source{Client: dockerClient, File: filepath.Join(folder, "registry.yaml"), Elsewhere: true}
	t := toolkit{}
	var exists bool
	t.registry, exists, s.Err = readTree(s.File, "registry")
	if s.Exists = exists; !exists || s.Err != nil {
		return s, exists
	}
	for _, file := range []struct {
		name string
		into *splice.Object
	}{{"config.yaml", &t.config}, {"tools.yaml", &t.tools}} {
		if *file.into, _, s.Err = readTree(filepath.Join(folder, file.name)); s.Err != nil {
			return s, true
		}
	}
	names := []string{"docker-mcp.yaml"}
	if m.Env.Names != nil {
		for _, name := range slices.Sorted(slices.Values(m.Env.Names(filepath.Join(folder, "catalogs")))) {
			if strings.HasSuffix(name, ".yaml") && name != names[0] {
				names = append(names, name)
			}
		}
	}
	for _, name := range names {
		catalog, _, err := readTree(filepath.Join(folder, "catalogs", name), "registry")
		if err != nil {
			s.Notes = append(s.Notes, clients.Note{Client: DockerMCP, Text: "a catalog is not read: " + err.Error()})
			continue
		}
		t.catalogs = append(t.catalogs, catalog)
	}
	for _, entry := range t.registry {
		s.Servers = append(s.Servers, t.server(entry.Key))
	}
	return s, true
}

// readTree reads the object at a path within a YAML file. A missing file is empty.
func readTree(file string, path ...string) (object splice.Object, exists bool, err error) {
	doc, exists, err := readFile(file)
	if err != nil || !exists {
		return nil, exists, err
	}
	tree, err := splice.Decode(doc, splice.YAML)
	if err != nil {
		return nil, true, fmt.Errorf("%s: %w", file, err)
	}
	object, _ = tree.(splice.Object)
	for _, key := range path {
		object, _ = object.Get(key).(splice.Object)
	}
	return object, true, nil
}

// toolkit is the content of the toolkit's files.
type toolkit struct {
	registry, config, tools splice.Object
	catalogs                []splice.Object
}

// server returns one server of the toolkit.
func (t toolkit) server(name string) clients.Server {
	s := clients.Server{Client: DockerMCP, Name: name, Path: splice.Path{"registry", name}}
	var spec splice.Object
	for _, catalog := range t.catalogs {
		if spec, _ = catalog.Get(name).(splice.Object); spec != nil {
			break
		}
	}
	if list, ok := t.tools.Get(name).([]any); ok {
		for _, tool := range list {
			if text, ok := tool.(string); ok {
				s.IncludeTools = append(s.IncludeTools, text)
			}
		}
	}
	remote, _ := spec.Get("remote").(splice.Object)
	image, _ := spec.Get("image").(string)
	switch {
	case spec == nil:
		s.Stay = "no catalog of the toolkit on this machine describes it"
	case remote != nil:
		remoteServer(&s, spec, remote)
	case image == "":
		s.Stay = "its tools are containers of their own, which only the toolkit runs"
	default:
		(&dockerRun{server: &s, config: t.config}).fill(spec, image)
	}
	return s
}

// remoteServer fills in a server that the toolkit reaches by its URL.
func remoteServer(s *clients.Server, spec, remote splice.Object) {
	s.Transport = clients.HTTP
	if kind, _ := remote.Get("transport_type").(string); kind == "sse" {
		s.Transport = clients.SSE
	}
	s.URL, _ = remote.Get("url").(string)
	headers, _ := remote.Get("headers").(splice.Object)
	secrets, _ := spec.Get("secrets").([]any)
	switch {
	case !strings.HasPrefix(s.URL, "https://") && !strings.HasPrefix(s.URL, "http://"):
		s.Stay = "its catalog names no http or https URL"
	case len(headers) > 0 || len(secrets) > 0:
		s.Stay = "its secrets are in the toolkit's store; weir add " + s.Name + " " + s.URL + ` --header "Name: value"`
	}
}

// dockerRun makes the command of one server.
type dockerRun struct {
	server *clients.Server
	config splice.Object
}

// stay keeps the server where it is; the first reason counts.
func (r *dockerRun) stay(format string, args ...any) {
	if r.server.Stay == "" {
		r.server.Stay = fmt.Sprintf(format, args...)
	}
}

// fill writes the command as the toolkit runs it: without new privileges, and with an init process.
func (r *dockerRun) fill(spec splice.Object, image string) {
	s := r.server
	s.Transport, s.Command = clients.Stdio, "docker"
	s.Args = []string{"run", "-i", "--rm", "--init", "--security-opt", "no-new-privileges"}
	if spec.Get("disableNetwork") == true {
		s.Args = append(s.Args, "--network", "none")
	}
	s.Env = map[string]string{}
	secrets, _ := spec.Get("secrets").([]any)
	for _, item := range secrets {
		secret, _ := item.(splice.Object)
		name, _ := secret.Get("name").(string)
		variable, _ := secret.Get("env").(string)
		r.stay("its secret %s is in the toolkit's store, which weir cannot read: give %s to weir add %s", name, variable, s.Name)
	}
	env, _ := spec.Get("env").([]any)
	for _, item := range env {
		variable, _ := item.(splice.Object)
		name, _ := variable.Get("name").(string)
		value, _ := variable.Get("value").(string)
		text := strings.Join(r.values("env "+name, value), ",")
		if name == "" || strings.ContainsAny(name, "=- ") {
			r.stay("a variable in its catalog has no name that docker takes")
		}
		if text != "" {
			s.Args, s.Env[name] = append(s.Args, "-e", name), plainText(text)
		}
	}
	r.option("-v", "volumes", spec.Get("volumes"))
	r.option("-u", "user", spec.Get("user"))
	r.option("--add-host", "extraHosts", spec.Get("extraHosts"))
	if strings.HasPrefix(image, "-") {
		r.stay("its image is no name of an image")
	}
	s.Args = append(s.Args, plainText(image))
	for _, text := range textsOf(spec.Get("command")) {
		for _, word := range r.values("command", text) {
			s.Args = append(s.Args, plainText(word))
		}
	}
}

// option adds an option of docker once for each value. A value must not become another option.
func (r *dockerRun) option(flag, key string, v any) {
	for _, text := range textsOf(v) {
		for _, value := range r.values(key, text) {
			if strings.HasPrefix(value, "-") {
				r.stay("%s in its catalog would be an option of docker", key)
			}
			if value != "" {
				r.server.Args = append(r.server.Args, flag, plainText(value))
			}
		}
	}
}

// plainText escapes a text that weir.yaml would expand.
func plainText(text string) string { return strings.ReplaceAll(text, "${", "$${") }

// textsOf returns a text, or the texts of a list.
func textsOf(v any) (out []string) {
	if text, ok := v.(string); ok {
		return []string{text}
	}
	list, _ := v.([]any)
	for _, item := range list {
		if text, ok := item.(string); ok {
			out = append(out, text)
		}
	}
	return out
}

// template matches {{server.setting|filter|…}} of catalogs.
var template = regexp.MustCompile(`\{\{([^{}|]+)((?:\|[^{}|]+)*)\}\}`)

// values fills in the templates of a text. A text that is one template with a list gives its values.
func (r *dockerRun) values(what, text string) []string {
	if strings.Contains(text, "$") && !template.MatchString(text) {
		r.stay("%s in its catalog names a variable of the toolkit", what)
	}
	at := template.FindStringSubmatch(text)
	if at == nil {
		return []string{text}
	}
	if at[0] == text {
		return r.value(what, at[1], at[2])
	}
	return []string{template.ReplaceAllStringFunc(text, func(part string) string {
		at := template.FindStringSubmatch(part)
		return strings.Join(r.value(what, at[1], at[2]), ",")
	})}
}

// value returns the values of one setting, after its filters.
func (r *dockerRun) value(what, path, filters string) []string {
	var v any = r.config
	for _, key := range strings.Split(strings.TrimSpace(path), ".") {
		object, _ := v.(splice.Object)
		v = object.Get(key)
	}
	var out []string
	switch v := v.(type) {
	case nil, splice.Object:
	case []any:
		out = textsOf(v)
	default:
		out = []string{fmt.Sprint(v)}
	}
	for _, filter := range strings.FieldsFunc(filters, func(c rune) bool { return c == '|' }) {
		switch strings.TrimSpace(filter) {
		case "into", "volume-target": // the path within the container is the path of the machine
		case "volume":
			for i, path := range out {
				out[i] = path + ":" + path
			}
		default:
			r.stay("%s in its catalog uses %q, which only the toolkit knows", what, strings.TrimSpace(filter))
		}
	}
	return out
}
