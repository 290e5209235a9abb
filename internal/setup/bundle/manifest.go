package bundle

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/weir-mcp/weir/internal/host/place"
	"github.com/weir-mcp/weir/internal/text/lazy"
)

// Manifest is the manifest.json of a bundle.
type Manifest struct {
	Name        string `json:"name"`
	DisplayName string `json:"display_name"`
	Version     string `json:"version"`
	Description string `json:"description"`
	Author      struct {
		Name string `json:"name"`
	} `json:"author"`
	Server struct {
		Type       string `json:"type"`
		EntryPoint string `json:"entry_point"`
		Config     *struct {
			launch
			Overrides map[string]launch `json:"platform_overrides"`
		} `json:"mcp_config"`
	} `json:"server"`
	Compatibility struct {
		Platforms []string `json:"platforms"`
	} `json:"compatibility"`

	settings []setting // of user_config, in its order
}

// launch is how a server is started.
type launch struct {
	Command string            `json:"command"`
	Args    []string          `json:"args"`
	Env     map[string]string `json:"env"`
}

// setting is an entry of user_config.
type setting struct {
	name        string
	Type        string          `json:"type"`
	Title       string          `json:"title"`
	Description string          `json:"description"`
	Required    bool            `json:"required"`
	Default     json.RawMessage `json:"default"`
	Multiple    bool            `json:"multiple"`
	Sensitive   bool            `json:"sensitive"`
}

var (
	bundleName    = lazy.Pattern(`^[A-Za-z0-9@][A-Za-z0-9@._ /-]{0,99}$`)
	bundleVersion = lazy.Pattern(`^[A-Za-z0-9][A-Za-z0-9._+-]{0,63}$`)
	settingName   = lazy.Pattern(`^[A-Za-z0-9_.-]{1,100}$`)
	unsafeInName  = lazy.Pattern(`[^A-Za-z0-9._-]+`)
)

// ReadFolder reads the manifest in a folder: an unpacked bundle, or an extension of Claude Desktop.
// Claude Desktop encrypts the settings of its extensions, so they are asked for again.
func ReadFolder(dir string) (*Manifest, error) {
	f, err := place.Open(filepath.Join(dir, "manifest.json"))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxManifest+1))
	if err != nil {
		return nil, err
	}
	m, err := parseManifest(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	return m, nil
}

func parseManifest(data []byte) (*Manifest, error) {
	if len(data) > maxManifest {
		return nil, errors.New("its manifest.json is larger than 1 MB")
	}
	m := &Manifest{}
	var rest struct {
		Manifest string          `json:"manifest_version"`
		DXT      string          `json:"dxt_version"`
		Settings json.RawMessage `json:"user_config"`
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	if err := errors.Join(json.Unmarshal(data, m), json.Unmarshal(data, &rest)); err != nil {
		return nil, errors.New("its manifest.json is not one: a key has a value of another type, or it is not JSON")
	}
	version := rest.Manifest
	if version == "" {
		version = rest.DXT
	}
	switch {
	case !slices.Contains([]string{"0.1", "0.2", "0.3", "0.4"}, version):
		return nil, fmt.Errorf("its manifest has the version %.20q; weir knows 0.1 to 0.4", version)
	case !bundleName().MatchString(m.Name) || !bundleVersion().MatchString(m.Version):
		return nil, errors.New("its manifest has no name and version that a folder can have")
	case !slices.Contains([]string{"node", "python", "binary", "uv"}, m.Server.Type):
		return nil, fmt.Errorf("its server is of the type %.20q; weir knows node, python, binary and uv", m.Server.Type)
	case m.Server.EntryPoint != "" && (strings.Contains(m.Server.EntryPoint, "\\") || !filepath.IsLocal(filepath.FromSlash(m.Server.EntryPoint))):
		return nil, errors.New("its entry_point is not in the bundle")
	case m.Server.EntryPoint == "" && m.Server.Config == nil:
		return nil, errors.New("its manifest says neither entry_point nor mcp_config")
	}
	return m, m.readSettings(rest.Settings)
}

// readSettings reads user_config in the order of the manifest. Questions have the same order.
func (m *Manifest) readSettings(raw json.RawMessage) error {
	if len(raw) == 0 || string(raw) == "null" {
		return nil
	}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	if open, err := decoder.Token(); err != nil || open != json.Delim('{') {
		return errors.New("its user_config is no object")
	}
	for decoder.More() {
		key, err := decoder.Token()
		if err != nil {
			return err
		}
		s := setting{}
		if err := decoder.Decode(&s); err != nil {
			return fmt.Errorf("user_config.%.40v is no setting", key)
		}
		s.name, _ = key.(string)
		if !settingName().MatchString(s.name) {
			return fmt.Errorf("%.40q is no name of a setting", s.name)
		}
		m.settings = append(m.settings, s)
	}
	return nil
}

// folder returns the readable part of a folder's name.
func (m *Manifest) folder() string {
	name := strings.Trim(unsafeInName().ReplaceAllString(m.Name, "-"), "-.")
	if name == "" {
		name = "bundle"
	}
	return name + "-" + m.Version
}

// launchOn returns how the server starts on a platform, as manifests call it: win32, darwin or linux.
func (m *Manifest) launchOn(platform string) launch {
	entry := "${__dirname}/" + path.Clean(m.Server.EntryPoint)
	var l launch
	switch m.Server.Type {
	case "node":
		l = launch{Command: "node", Args: []string{entry}}
	case "python":
		if l = (launch{Command: "python3", Args: []string{entry}}); platform == "win32" {
			l.Command = "python"
		}
	case "uv":
		l = launch{Command: "uv", Args: []string{"run", "--directory", "${__dirname}", path.Clean(m.Server.EntryPoint)}}
	case "binary":
		l = launch{Command: entry}
	}
	if c := m.Server.Config; c != nil {
		l = over(l, c.launch)
		l = over(l, c.Overrides[platform])
	}
	return l
}

// over returns a launch with the values that another one overrides. Variables are joined.
func over(l, by launch) launch {
	if by.Command != "" {
		l.Command, l.Args = by.Command, by.Args
	} else if by.Args != nil {
		l.Args = by.Args
	}
	env := map[string]string{}
	for _, from := range []map[string]string{l.Env, by.Env} {
		for name, value := range from {
			env[name] = value
		}
	}
	l.Env = env
	return l
}
