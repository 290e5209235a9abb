package mcpregistry

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
)

// Server is a document of the registry (server.json).
type Server struct {
	Name        string    `json:"name"`
	Title       string    `json:"title"`
	Description string    `json:"description"`
	Version     string    `json:"version"`
	Packages    []Package `json:"packages"`
	Remotes     []Remote  `json:"remotes"`
	Repository  struct {
		URL string `json:"url"`
	} `json:"repository"`

	// Status is active, deprecated or deleted; StatusMessage is the publisher's reason.
	Status        string `json:"status"`
	StatusMessage string `json:"statusMessage"`
}

// Package is one way to run a server on this machine.
type Package struct {
	RegistryType         string     `json:"registryType"`
	RegistryBaseURL      string     `json:"registryBaseUrl"`
	Identifier           string     `json:"identifier"`
	Version              string     `json:"version"`
	FileSHA256           string     `json:"fileSha256"`
	RuntimeArguments     []Argument `json:"runtimeArguments"`
	PackageArguments     []Argument `json:"packageArguments"`
	EnvironmentVariables []Argument `json:"environmentVariables"`
	Transport            Remote     `json:"transport"`
}

// Remote is a server that runs elsewhere.
type Remote struct {
	Type      string           `json:"type"`
	URL       string           `json:"url"`
	Headers   []Argument       `json:"headers"`
	Variables map[string]Input `json:"variables"`
}

// Argument is a value with its name: a variable, a header or an argument of a program.
type Argument struct {
	Type      string `json:"type"` // positional or named; arguments only
	Name      string `json:"name"`
	ValueHint string `json:"valueHint"`
	Input
	Variables map[string]Input `json:"variables"`
}

// Input is a value, or a question to the user.
type Input struct {
	Description string   `json:"description"`
	Value       scalar   `json:"value"`
	Default     scalar   `json:"default"`
	Placeholder string   `json:"placeholder"`
	Format      string   `json:"format"`
	Choices     []scalar `json:"choices"`
	IsRequired  bool     `json:"isRequired"`
	IsSecret    bool     `json:"isSecret"`
}

// scalar is a text. A document may have a number or a boolean in its place.
type scalar string

// UnmarshalJSON implements json.Unmarshaler.
func (s *scalar) UnmarshalJSON(raw []byte) error {
	switch {
	case len(raw) == 0 || raw[0] == '{' || raw[0] == '[':
		return errors.New("a text is wanted")
	case raw[0] == '"':
		return json.Unmarshal(raw, (*string)(s))
	case string(raw) != "null":
		*s = scalar(raw)
	}
	return nil
}

// renamed maps keys of older documents to the keys of today: snake case, and other words.
var renamed = map[string]string{
	"registry_type": "registryType", "registry_name": "registryType", "registry_base_url": "registryBaseUrl", "file_sha256": "fileSha256",
	"runtime_arguments": "runtimeArguments", "package_arguments": "packageArguments", "environment_variables": "environmentVariables",
	"value_hint": "valueHint", "is_required": "isRequired", "is_secret": "isSecret", "transport_type": "type", "status_message": "statusMessage",
	"next_cursor": "nextCursor",
}

// modern returns a document with the keys of today. The names of variables are the publisher's.
func modern(v any, names bool) any {
	switch v := v.(type) {
	case []any:
		for i := range v {
			v[i] = modern(v[i], false)
		}
	case map[string]any:
		out := make(map[string]any, len(v))
		for key, value := range v {
			next := key
			if to, old := renamed[key]; old && !names {
				next = to
			}
			if _, both := v[next]; both && next != key {
				continue
			}
			out[next] = modern(value, key == "variables")
		}
		return out
	}
	return v
}

// read decodes a document with the keys of any version into v, a pointer.
func read(body []byte, v any) error {
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	var raw any
	if err := decoder.Decode(&raw); err != nil {
		return errors.New("it is not JSON")
	}
	data, err := json.Marshal(modern(raw, false))
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, v); err != nil {
		if wrong := (*json.UnmarshalTypeError)(nil); errors.As(err, &wrong) {
			return errors.New("the value of " + wrong.Field + " is of another type than server.json has")
		}
		return errors.New("it is no document of the registry")
	}
	return nil
}

// envelope is a server in the registry's wrapping.
type envelope struct {
	Server json.RawMessage            `json:"server"`
	Meta   map[string]json.RawMessage `json:"_meta"`
}

// ParseServer reads {server, _meta}, or a bare server.json.
func ParseServer(body []byte) (s Server, err error) {
	var e envelope
	if err := json.Unmarshal(body, &e); err != nil || e.Server == nil {
		e = envelope{Server: body}
	}
	if err := read(e.Server, &s); err != nil {
		return s, err
	}
	var official struct{ Status, StatusMessage string }
	if raw, ok := e.Meta["io.modelcontextprotocol.registry/official"]; ok && read(raw, &official) == nil && official.Status != "" {
		s.Status, s.StatusMessage = official.Status, official.StatusMessage
	}
	s.Status = strings.ToLower(s.Status)
	if !isName(s.Name) {
		return s, errors.New("it has no name such as io.github.owner/server")
	}
	return s, nil
}

// parsePage reads one page of a list. Servers that cannot be read are left out.
func parsePage(body []byte) (servers []Server, next string, err error) {
	var page struct {
		Servers  []json.RawMessage
		Metadata json.RawMessage
	}
	if err := json.Unmarshal(body, &page); err != nil || page.Servers == nil {
		return nil, "", errors.New("it is no list of servers; check registry.url")
	}
	for _, raw := range page.Servers {
		if s, err := ParseServer(raw); err == nil {
			servers = append(servers, s)
		}
	}
	var metadata struct{ NextCursor string }
	if page.Metadata != nil {
		if err := read(page.Metadata, &metadata); err != nil {
			return nil, "", err
		}
	}
	return servers, metadata.NextCursor, nil
}
