package roster

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/weir-mcp/weir/internal/rawjson"
)

// version is that of the documents.
const version = 1

// document is the value of o.HASH.
type document struct {
	V         int               `json:"v"`
	Office    string            `json:"office"`
	Agent     json.RawMessage   `json:"agent,omitempty"`
	Computers []json.RawMessage `json:"computers,omitempty"`
}

var errDocument = errors.New("the document of an office cannot be read")

// Newer says that a newer version of weir, which this one cannot read, has written the members of an office.
type Newer struct{ Version int }

// Error implements error.
func (e *Newer) Error() string {
	return fmt.Sprintf("a newer version of weir has written the members of the office: they have version %d, and this one reads up to %d", e.Version, version)
}

// Is reports that the document cannot be read.
func (e *Newer) Is(target error) bool { return target == errDocument }

// decode reads the document of an office. What this build does not know is kept for Encode.
func decode(value []byte) (*Office, error) {
	var d document
	// The version comes first: another one may have other types elsewhere.
	if v, _ := rawjson.Int(rawjson.Get(value, "v")); v > version {
		return nil, &Newer{v}
	}
	if err := json.Unmarshal(value, &d); err != nil || d.V != version {
		return nil, fmt.Errorf("%w: version %d", errDocument, d.V)
	}
	o := &Office{ID: d.Office, rest: value}
	if d.Agent != nil {
		m, err := decodeMember(d.Agent, Agent)
		if err != nil {
			return nil, err
		}
		o.Agent = m
	}
	for _, raw := range d.Computers {
		m, err := decodeMember(raw, Computer)
		if err != nil {
			return nil, err
		}
		if o.Computers == nil {
			o.Computers = make(map[string]*Member, len(d.Computers))
		}
		o.Computers[m.Name] = m
	}
	return o, nil
}

func decodeMember(raw json.RawMessage, role Role) (*Member, error) {
	m := &Member{raw: raw}
	if json.Unmarshal(raw, m) != nil || m.Role != role || m.Name == "" {
		return nil, errDocument
	}
	return m, nil
}

// Encode returns the document of an office. Members that were read keep their bytes.
func (o *Office) Encode() ([]byte, error) {
	d := document{V: version, Office: o.ID}
	var err error
	if o.Agent != nil {
		if d.Agent, err = o.Agent.encode(); err != nil {
			return nil, err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(o.Computers)) {
		raw, err := o.Computers[name].encode()
		if err != nil {
			return nil, err
		}
		d.Computers = append(d.Computers, raw)
	}
	if o.rest == nil {
		return json.Marshal(d)
	}
	out := append(json.RawMessage(nil), o.rest...)
	set := func(key string, present bool, value any) {
		if err != nil {
			return
		}
		if !present {
			out, err = rawjson.Delete(out, key)
			return
		}
		var raw []byte
		if raw, err = json.Marshal(value); err == nil {
			out, err = rawjson.Set(out, key, raw)
		}
	}
	set("agent", d.Agent != nil, d.Agent)
	set("computers", d.Computers != nil, d.Computers)
	return out, err
}

func (m *Member) encode() (json.RawMessage, error) {
	if m.raw != nil {
		return m.raw, nil
	}
	return json.Marshal(m)
}
