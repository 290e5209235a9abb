package clients

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"

	"github.com/weir-mcp/weir/internal/json/splice"
)

// entryName is the name of weir's entry. A name without "_" stays whole in every client.
const entryName = "weir"

// Edit is one change of a client's file. It sets Value at Path, or removes the value there.
type Edit struct {
	Path   splice.Path
	Value  splice.Object // nil removes
	Server string        // the name of the entry, for messages
}

// Connect plans the edits that put weir's entry into a client's file and remove the moved servers.
// Without moved servers it only adds. It updates an existing entry of weir in its place, and
// removes further ones. Without a profile in h it leaves the entry its own. If an entry has the name of a moved server but is for another server, it
// stays: clients have several files, and users edit them meanwhile. The result is empty if the file
// needs no change.
func (c *Client) Connect(doc []byte, h How, moved []Server, env Environment) ([]Edit, error) {
	if c.Pasted() {
		return nil, fmt.Errorf("%s has no file that weir could edit: paste the entry into it (weir connect %s --print)", c.Name, c.ID)
	}
	servers, _, err := Servers(c, doc, env)
	if err != nil {
		return nil, err
	}
	var edits []Edit
	place := append(slices.Clone(c.keyIn(doc)), c.nameIn(entryName))
	placed, taken := false, map[string]bool{}
	for _, s := range servers {
		switch {
		case s.Project != "":
		case h.IsOurs(s) && !placed:
			placed, place = true, s.Path
			if profile := h.profileOf(s); h.Profile == nil {
				h.Profile = &profile
			}
		case h.IsOurs(s):
			edits = append(edits, Edit{Path: s.Path, Server: s.Name})
		default:
			taken[s.Name] = true
		}
	}
	name := entryName
	for n := 0; !placed && taken[name]; n++ {
		name = [...]string{"weir-gateway", "weir-mcp-gateway", "weir-mcp"}[n%3]
		place[len(place)-1] = c.nameIn(name)
		if n == 3 {
			return nil, fmt.Errorf("the file of %s has servers with every name that weir would take: rename the server %q there", c.Name, entryName)
		}
	}
	entry := withName(c, name, c.Entry(h))
	if now, ok, err := splice.Lookup(doc, c.Format, place); err != nil {
		return nil, fmt.Errorf("the file of %s: %w", c.Name, err)
	} else if object, _ := now.(splice.Object); !ok || !contains(object, entry) {
		edits = append([]Edit{{Path: place, Value: entry, Server: name}}, edits...)
	}
	for _, s := range moved {
		if at := slices.IndexFunc(servers, func(now Server) bool { return slices.Equal(now.Path, s.Path) }); s.Client == c.ID && at >= 0 &&
			!h.IsOurs(servers[at]) && identity(servers[at], env) == identity(s, env) {
			edits = append(edits, Edit{Path: s.Path, Server: s.Name})
		}
	}
	return edits, nil
}

// Disconnect plans the edits that take every entry of weir out of a client's file. The servers that
// Connect took out come back with [splice.Restore].
func (c *Client) Disconnect(doc []byte, h How, env Environment) ([]Edit, error) {
	servers, _, err := Servers(c, doc, env)
	if err != nil {
		return nil, err
	}
	var edits []Edit
	for _, s := range servers {
		if h.IsOurs(s) {
			edits = append(edits, Edit{Path: s.Path, Server: s.Name})
		}
	}
	return edits, nil
}

// Apply makes the edits in a file's bytes. It returns the cuts, in order, for [splice.Restore]. On
// an error it returns nothing, and the file stays unchanged.
func (c *Client) Apply(doc []byte, edits []Edit) (out []byte, cuts []splice.Cut, err error) {
	out = doc
	for _, e := range edits {
		if e.Value != nil {
			if out, err = splice.Set(out, c.Format, e.Path, e.Value); err != nil {
				return nil, nil, err
			}
			continue
		}
		var cut splice.Cut
		if out, cut, err = splice.Remove(out, c.Format, e.Path); err != nil {
			return nil, nil, err
		}
		cuts = append(cuts, cut)
	}
	return out, cuts, nil
}

// keyIn returns the place of the servers in this file: the other place if the file has it.
func (c *Client) keyIn(doc []byte) splice.Path {
	if c.older != nil {
		if v, ok, err := splice.Lookup(doc, c.Format, c.older); err == nil && ok && !isEntry(v) {
			return c.older
		}
	}
	return c.key
}

// nameIn returns the last segment of the path of an entry.
func (c *Client) nameIn(name string) string {
	if c.form.list {
		return "name=" + name
	}
	return name
}

// withName returns an entry with its name in it, where the form has one.
func withName(c *Client, name string, entry splice.Object) splice.Object {
	if c.form.list && entry.Get("name") == nil {
		return append(splice.Object{{Key: "name", Value: name}}, entry...)
	}
	out := slices.Clone(entry)
	for i, m := range out {
		if m.Key == "name" {
			out[i].Value = name
		}
	}
	return out
}

// contains reports whether an entry has all members of another, with the same values. Members that
// the client or its user added do not count.
func contains(have, want splice.Object) bool {
	for _, m := range want {
		a, errA := json.Marshal(bare(have.Get(m.Key)))
		b, errB := json.Marshal(bare(m.Value))
		if errA != nil || errB != nil || !reflect.DeepEqual(a, b) {
			return false
		}
	}
	return true
}

// bare turns Objects into lists that marshal in order.
func bare(v any) any {
	switch v := v.(type) {
	case splice.Object:
		out := make([]any, 0, 2*len(v))
		for _, m := range v {
			out = append(out, m.Key, bare(m.Value))
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = bare(v[i])
		}
		return out
	}
	return v
}
