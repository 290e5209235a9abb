package mcpregistry

import (
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/weir-mcp/weir/internal/text"
	"github.com/weir-mcp/weir/internal/text/lazy"
)

// Machine describes the place where the server would run.
type Machine struct {
	// Has reports whether a program can be started by its bare name.
	Has func(program string) bool

	// Open reports whether a remote server answers without OAuth. nil: only servers that name their
	// headers do.
	Open func(url string) bool
}

// Entry is an entry of mcpServers. In texts of strangers and answers, ${ is escaped.
type Entry struct {
	Type    string            `json:"type,omitempty"`
	URL     string            `json:"url,omitempty"`
	Headers map[string]string `json:"headers,omitempty"`
	Command string            `json:"command,omitempty"`
	Args    []string          `json:"args,omitempty"`
	Env     map[string]string `json:"env,omitempty"`
}

// Bundle is an .mcpb file to download and check.
type Bundle struct{ URL, SHA256 string }

// Question is a value that a person has to give.
type Question struct {
	ID          string   // of the answer
	Secret      bool     // the answer is stored as the secret with the name ID; the entry names it
	Description string   // by the publisher
	Format      string   // string, number, boolean or filepath; "" for string
	Default     string   // "" for none
	Choices     []string // nil for any
	Required    bool
}

// Plan is one way to run a server.
type Plan struct {
	Server    string
	Version   string
	Kind      string // remote, npm, pypi, oci, nuget or mcpb
	Warning   string // of a deprecated server; "" for none
	Questions []Question
	Bundle    *Bundle // of kind mcpb, which has no entry yet; else nil

	short string
	build func(*filler) Entry
}

// NewPlan returns the best way to run a server on a machine. A remote server is the best, then the
// first kind of package whose runtime is installed. If there is none, the error has the reason for
// each.
func NewPlan(s Server, m Machine) (*Plan, error) {
	var reasons []error
	try := func(kind string, usable func() (build func(*filler) Entry, err error)) *Plan {
		build, err := usable()
		if err != nil {
			reasons = append(reasons, fmt.Errorf("%s: %w", kind, err))
			return nil
		}
		p := &Plan{Server: s.Name, Version: s.Version, Kind: kind, short: shortName(s.Name), build: build}
		if s.Status == "deprecated" {
			p.Warning = strings.TrimSuffix(fmt.Sprintf("%s is deprecated: %s", s.Name, text.Line(s.StatusMessage, 200)), ": ")
		}
		f := &filler{plan: p}
		p.build(f)
		p.Questions = f.questions
		return p
	}
	for _, r := range s.Remotes {
		if p := try("remote", func() (func(*filler) Entry, error) { return r.plan(m) }); p != nil {
			return p, nil
		}
	}
	for _, kind := range []string{"npm", "pypi", "oci", "nuget", "mcpb"} {
		for _, pkg := range s.Packages {
			if pkg.RegistryType != kind {
				continue
			}
			p := try(kind, func() (func(*filler) Entry, error) { return pkg.plan(m) })
			if p != nil && kind == "mcpb" {
				p.Bundle = &Bundle{pkg.Identifier, strings.ToLower(pkg.FileSHA256)}
			}
			if p != nil {
				return p, nil
			}
		}
	}
	if len(reasons) == 0 {
		return nil, fmt.Errorf("%s has neither a remote server nor a package of a kind that weir knows", s.Name)
	}
	return nil, fmt.Errorf("%s cannot run here: %w", s.Name, errors.Join(reasons...))
}

// Fill returns the entry for the user's answers by question. It fails if a required answer is
// missing, or if an answer is not among the choices.
func (p *Plan) Fill(answers map[string]string) (Entry, error) {
	if p.Bundle != nil {
		return Entry{}, errors.New("the entry of an .mcpb file is in the file")
	}
	var missing []string
	for _, q := range p.Questions {
		answer, given := answers[q.ID]
		if !given || answer == "" {
			answer = q.Default
		}
		switch {
		case answer == "" && q.Required:
			missing = append(missing, q.ID)
		case answer != "" && !q.Secret && len(q.Choices) > 0 && !slices.Contains(q.Choices, answer):
			return Entry{}, fmt.Errorf("%s must be one of: %s", q.ID, strings.Join(q.Choices, ", "))
		}
	}
	if len(missing) > 0 {
		return Entry{}, fmt.Errorf("%s needs a value for %s", p.Server, strings.Join(missing, ", "))
	}
	return p.build(&filler{plan: p, answers: answers}), nil
}

// plan returns how weir connects to the remote server.
func (r Remote) plan(m Machine) (func(*filler) Entry, error) {
	kind := map[string]string{"streamable-http": "http", "streamable": "http", "http": "http", "sse": "sse"}[r.Type]
	u, err := url.Parse(strings.NewReplacer("{", "", "}", "").Replace(r.URL))
	switch {
	case kind == "":
		return nil, fmt.Errorf("the transport %q is not known", text.Fit(r.Type, 40))
	case err != nil || u.Host == "" || u.User != nil:
		return nil, errors.New("its URL is not one")
	case u.Scheme != "https" && !(u.Scheme == "http" && loopback(u.Hostname())):
		return nil, errors.New("its URL is not https")
	case len(r.Headers) == 0 && len(r.Variables) == 0 && (m.Open == nil || !m.Open(r.URL)):
		return nil, errors.New("it may want a login (OAuth), which weir cannot do for it")
	}
	for _, h := range r.Headers {
		if !headerName().MatchString(h.Name) {
			return nil, fmt.Errorf("%q is no name of a header", text.Fit(h.Name, 40))
		}
	}
	return func(f *filler) Entry {
		e := Entry{Type: kind, URL: f.template(r.URL, r.Variables)}
		for _, h := range r.Headers {
			if value, ok := f.value(h.Name, h.Input, h.Variables); ok {
				if e.Headers == nil {
					e.Headers = map[string]string{}
				}
				e.Headers[h.Name] = value
			}
		}
		return e
	}, nil
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

var (
	headerName = lazy.Pattern(`^[A-Za-z0-9!#$%&'*+.^_|~-]{1,100}$`)
	envName    = lazy.Pattern(`^[A-Za-z_][A-Za-z0-9_]{0,127}$`)
	// exact is a version that can only mean one release.
	exact = lazy.Pattern(`^v?[0-9][A-Za-z0-9.+!_-]{0,63}$`)

	npmName   = lazy.Pattern(`^(@[a-z0-9~][a-z0-9._~-]*/)?[A-Za-z0-9~][A-Za-z0-9._~-]*$`)
	pypiName  = lazy.Pattern(`^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$`)
	imageName = lazy.Pattern(`^[a-z0-9]+([.-][a-z0-9]+)*(:[0-9]+)?(/[a-z0-9]+([._-]+[a-z0-9]+)*)*(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(@sha256:[0-9a-f]{64})?$`)
)

// publicHosts are the default hosts of the runtimes for packages.
var publicHosts = map[string][]string{
	"npm":   {"", "https://registry.npmjs.org"},
	"pypi":  {"", "https://pypi.org"},
	"nuget": {"", "https://api.nuget.org", "https://api.nuget.org/v3/index.json"},
}

// plan returns how weir runs the package.
func (p Package) plan(m Machine) (func(*filler) Entry, error) {
	if t := p.Transport.Type; t != "" && t != "stdio" {
		return nil, fmt.Errorf("the package serves %s, and weir starts packages that speak stdio", text.Fit(t, 40))
	}
	for _, v := range p.EnvironmentVariables {
		if !envName().MatchString(v.Name) {
			return nil, fmt.Errorf("%q is no name of a variable", text.Fit(v.Name, 40))
		}
	}
	if hosts, known := publicHosts[p.RegistryType]; known && !slices.Contains(hosts, strings.TrimRight(p.RegistryBaseURL, "/")) {
		return nil, fmt.Errorf("it is in a registry of its own, %s", text.Fit(p.RegistryBaseURL, 80))
	}
	switch p.RegistryType {
	case "npm":
		return p.runner(m, npmName(), "npx", "install Node.js", func(runtime []string) []string {
			if !slices.Contains(runtime, "-y") && !slices.Contains(runtime, "--yes") {
				runtime = append(runtime, "-y")
			}
			return append(runtime, p.Identifier+"@"+p.Version)
		})
	case "pypi":
		return p.runner(m, pypiName(), "uvx", "install uv", func(runtime []string) []string {
			return append(runtime, p.Identifier+"@"+p.Version)
		})
	case "nuget":
		return p.runner(m, pypiName(), "dnx", "install .NET 10", func(runtime []string) []string {
			args := append(runtime, p.Identifier+"@"+p.Version, "--yes")
			if len(p.PackageArguments) > 0 {
				args = append(args, "--")
			}
			return args
		})
	case "oci":
		return p.container(m)
	}
	sum, err := hex.DecodeString(p.FileSHA256)
	u, urlErr := url.Parse(p.Identifier)
	switch {
	case err != nil || len(sum) != 32:
		return nil, errors.New("the document has no SHA-256 of the file, so it cannot be checked")
	case urlErr != nil || u.Scheme != "https" || u.Host == "":
		return nil, errors.New("the file is at no https URL")
	}
	return func(*filler) Entry { return Entry{} }, nil
}

// runner returns how a program runs the package by its name and version.
func (p Package) runner(m Machine, name *regexp.Regexp, program, fix string, args func(runtime []string) []string) (func(*filler) Entry, error) {
	switch {
	case !name.MatchString(p.Identifier):
		return nil, fmt.Errorf("%q is no name of a package", text.Fit(p.Identifier, 80))
	case !exact().MatchString(p.Version):
		return nil, fmt.Errorf("%q is no exact version", text.Fit(p.Version, 40))
	case !m.Has(program):
		return nil, fmt.Errorf("there is no %s; %s", program, fix)
	}
	return func(f *filler) Entry {
		e := Entry{Command: program, Args: args(f.arguments(p.RuntimeArguments))}
		e.Args = append(e.Args, f.arguments(p.PackageArguments)...)
		e.Env = f.environment(p.EnvironmentVariables)
		return e
	}, nil
}

// container returns how docker or podman runs the image.
func (p Package) container(m Machine) (func(*filler) Entry, error) {
	image := p.Identifier
	if host := strings.TrimPrefix(strings.TrimRight(p.RegistryBaseURL, "/"), "https://"); host != "" && host != "docker.io" && !strings.HasPrefix(image, host+"/") {
		image = host + "/" + image
	}
	tag := image[strings.LastIndex(image, "/")+1:]
	if !strings.ContainsAny(tag, ":@") && p.Version != "" {
		image += ":" + p.Version
		tag += ":" + p.Version
	}
	switch {
	case !imageName().MatchString(image):
		return nil, fmt.Errorf("%q is no image", text.Fit(image, 80))
	case !strings.Contains(tag, "@sha256:") && (!strings.Contains(tag, ":") || strings.HasSuffix(tag, ":latest")):
		return nil, fmt.Errorf("%q has no exact tag", text.Fit(image, 80))
	}
	for _, program := range []string{"docker", "podman"} {
		if !m.Has(program) {
			continue
		}
		return func(f *filler) Entry {
			e := Entry{Command: program, Args: []string{"run", "-i", "--rm"}, Env: f.environment(p.EnvironmentVariables)}
			for _, name := range slices.Sorted(maps.Keys(e.Env)) {
				e.Args = append(e.Args, "-e", name)
			}
			e.Args = append(append(e.Args, f.arguments(p.RuntimeArguments)...), image)
			e.Args = append(e.Args, f.arguments(p.PackageArguments)...)
			return e
		}, nil
	}
	return nil, errors.New("there is neither docker nor podman; install one of them")
}
