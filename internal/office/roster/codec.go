package roster

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/weir-mcp/weir/internal/json/rawjson"
)

// version is the version of the documents.
const version = 1

// The value of o.HASH is an object: "v", "office" (the id), "agent" (a Member or none) and "computers" (a list of them).

var errDocument = errors.New("the document of an office cannot be read")

// Newer says that a newer version of weir, which this one cannot read, has written the members of an office.
type Newer struct{ Version int }

// Error implements error.
func (e *Newer) Error() string {
	return fmt.Sprintf("a newer version of weir has written the members of the office: they have version %d, and this one reads up to %d", e.Version, version)
}

// Is reports that the document cannot be read.
func (e *Newer) Is(target error) bool { return target == errDocument }

// decode reads the document of an office. Unknown members are kept for Encode. before is an earlier revision, nil for
// none: a member that has the bytes of then is copied and not decoded again. Most revisions change one member.
func decode(value []byte, before *Office) (*Office, error) {
	// The version comes first: another one may have other types elsewhere.
	var v, id, agent, computers []byte
	if err := rawjson.Scan(value, rawjson.Key("v", &v), rawjson.Key("office", &id), rawjson.Key("agent", &agent), rawjson.Key("computers", &computers)); err != nil {
		return nil, fmt.Errorf("%w: %w", errDocument, err)
	}
	n, _ := rawjson.Int(v)
	if n > version {
		return nil, &Newer{n}
	}
	name, err := rawjson.String(id)
	if id == nil {
		name, err = "", nil
	}
	if err != nil || n != version {
		return nil, fmt.Errorf("%w: version %d", errDocument, n)
	}
	o := &Office{ID: name, rest: value}
	if before == nil {
		before = &Office{}
	}
	if agent != nil && string(agent) != "null" {
		if old := before.Agent; old != nil && bytes.Equal(old.raw, agent) {
			o.Agent = old.copyAs(agent)
		} else if o.Agent, err = decodeMember(agent, Agent); err != nil {
			return nil, err
		}
	}
	if computers == nil || string(computers) == "null" {
		return o, nil
	}
	o.order = make([]*Member, 0, len(before.order)+1)
	left := before.order
	err = eachElement(computers, func() []byte {
		if len(left) == 0 {
			return nil
		}
		return left[0].raw
	}, func(raw []byte) (err error) {
		var m *Member
		for i := range min(len(left), maxRemoved) {
			if bytes.Equal(left[i].raw, raw) {
				m, left = left[i].copyAs(raw), left[i+1:]
				break
			}
		}
		if m == nil {
			m, err = decodeMember(raw, Computer)
		}
		o.order = append(o.order, m)
		return err
	})
	if err != nil {
		return nil, err
	}
	if len(o.order) > 0 {
		o.Computers = make(map[string]*Member, len(o.order))
		for _, m := range o.order {
			o.Computers[m.Name] = m
		}
	}
	return o, nil
}

// maxRemoved bounds the members in a row that have gone since the last revision. The members behind more are decoded.
const maxRemoved = 32

// eachElement calls f with the elements of an array. next returns the element that is likely to come: where it is right,
// nothing is scanned.
func eachElement(arr []byte, next func() []byte, f func(raw []byte) error) error {
	if !rawjson.IsArray(arr) {
		return errDocument
	}
	i := rawjson.SkipSpace(arr, 1)
	for first := true; i < len(arr) && arr[i] != ']'; first = false {
		if !first {
			if arr[i] != ',' {
				return errDocument
			}
			i = rawjson.SkipSpace(arr, i+1)
		}
		end := i
		if likely := next(); likely != nil && bytes.HasPrefix(arr[i:], likely) {
			end += len(likely)
		} else {
			var err error
			if end, err = rawjson.Skip(arr, i); err != nil {
				return fmt.Errorf("%w: %w", errDocument, err)
			}
		}
		if err := f(arr[i:end:end]); err != nil {
			return err
		}
		i = rawjson.SkipSpace(arr, end)
	}
	return nil
}

// copyAs returns a copy of a member in another document. The bytes of its own document are not kept for it.
func (m *Member) copyAs(raw json.RawMessage) *Member {
	out := *m
	out.raw = raw
	return &out
}

// clone returns a copy whose members the caller owns.
func (o *Office) clone() *Office {
	out := *o
	out.order = nil
	if o.Agent != nil {
		out.Agent = o.Agent.copyAs(o.Agent.raw)
	}
	out.Computers = nil
	if o.Computers != nil {
		room := make([]Member, 0, len(o.Computers))
		out.Computers = make(map[string]*Member, len(o.Computers)+1)
		for name, m := range o.Computers {
			room = append(room, *m)
			out.Computers[name] = &room[len(room)-1]
		}
	}
	return &out
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
	w := rawjson.NewWriter(make([]byte, 0, len(o.rest)+512)).Object()
	if o.rest == nil {
		w.Key("v").Int(version).Key("office").String(o.ID)
	} else if err := rawjson.EachMember(o.rest, func(m rawjson.Member) bool {
		if key := string(m.Key); key != "agent" && key != "computers" {
			w.Key(key).Raw(m.Value)
		}
		return true
	}); err != nil {
		return nil, err
	}
	if o.Agent != nil {
		raw, err := o.Agent.encode()
		if err != nil {
			return nil, err
		}
		w.Key("agent").Raw(raw)
	}
	if len(o.Computers) > 0 {
		w.Key("computers").Array()
		for _, name := range slices.Sorted(maps.Keys(o.Computers)) {
			raw, err := o.Computers[name].encode()
			if err != nil {
				return nil, err
			}
			w.Raw(raw)
		}
		w.EndArray()
	}
	return w.EndObject().Bytes(), nil
}

func (m *Member) encode() (json.RawMessage, error) {
	if m.raw != nil {
		return m.raw, nil
	}
	return json.Marshal(m)
}
