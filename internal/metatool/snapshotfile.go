package metatool

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/weir-mcp/weir/internal/catalog/primitive"
	"github.com/weir-mcp/weir/internal/dispatch"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/text"
	"github.com/weir-mcp/weir/mcp"
)

// errSnapshotFile is wrapped by every error of ReadSnapshotFile.
var errSnapshotFile = errors.New("not a catalog snapshot")

// maxSnapshotFile bounds a snapshot file, in bytes.
const maxSnapshotFile = 256 << 20

// SnapshotFile is a catalog that is served without its servers (spec/gateway §6.5): to inspect one,
// to test an agent, or to run without a network. It is a bare list of tools, or an object:
//
//	{"tools":     [{"name":"…","inputSchema":{…}}],
//	 "resources": [{"uri":"…","name":"…","text":"…"}],
//	 "resourceTemplates": [{"uriTemplate":"…","name":"…"}],
//	 "prompts":   [{"name":"…","arguments":[…],"messages":[…]}],
//	 "reads":     {"file:///a":"text", "file:///b":[{"uri":"…","blob":"…"}]}}
//
// An object has at least one of these keys.
//
// A resource with "text", "blob" or "contents" can be read, and so can each URI in "reads". A
// prompt with "messages" can be rendered; {{argument}} in its texts is replaced. Tools cannot be
// executed without an upstream.
//
// A SnapshotFile is the Peer of its own entries. It is immutable and safe for concurrent use.
type SnapshotFile struct {
	name, path string
	listing    primitive.Listing
	reads      map[string]json.RawMessage // contents by URI
	prompts    map[string]json.RawMessage // by name: messages
	about      map[string]string          // descriptions by name of a prompt
}

var _ mcp.Peer = (*SnapshotFile)(nil)

// ReadSnapshotFile parses the contents of a snapshot file. The entries belong to an upstream with
// the name of the file. The error says what is wrong and where; faults of single entries are in the
// report of the catalog.
func ReadSnapshotFile(path string, data []byte) (*SnapshotFile, error) {
	bad := func(format string, args ...any) (*SnapshotFile, error) {
		return nil, fmt.Errorf("%w: %s: %s", errSnapshotFile, path, fmt.Sprintf(format, args...))
	}
	name := strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
	f := &SnapshotFile{name: name, path: path, reads: map[string]json.RawMessage{}, prompts: map[string]json.RawMessage{}, about: map[string]string{}}
	f.listing = primitive.Listing{Upstream: name, Order: 1 << 20}
	data = bytes.TrimSpace(bytes.TrimPrefix(data, []byte("\ufeff")))
	if len(data) > maxSnapshotFile {
		return bad("%d bytes, at most %d are read", len(data), maxSnapshotFile)
	}
	if err := rawjson.Valid(data); err != nil {
		return bad("%v", err)
	}
	if rawjson.IsArray(data) {
		list, err := entriesOf(data)
		if err != nil {
			return bad("%v", err)
		}
		f.listing.Tools = list
		return f, nil
	}
	if !rawjson.IsObject(data) {
		return bad("it must be a list of tools, or an object with tools, resources and prompts")
	}
	keys := []string{"tools", "resources", "resourceTemplates", "prompts", "reads"}
	fields := make([][]byte, len(keys))
	if err := rawjson.Fields(data, keys, fields); err != nil {
		return bad("%v", err)
	}
	if !slices.ContainsFunc(fields, func(f []byte) bool { return f != nil }) {
		fix := ""
		if rawjson.Get(data, "mcpServers") != nil {
			fix = "; a configuration with mcpServers is for --config"
		}
		return bad("it has none of the keys %s%s%s", strings.Join(keys, ", "), foundKeys(data), fix)
	}
	for i, into := range []*[]json.RawMessage{&f.listing.Tools, &f.listing.Resources, &f.listing.ResourceTemplates, &f.listing.Prompts} {
		list, err := entriesOf(fields[i])
		if err != nil {
			return bad("%s: %v", keys[i], err)
		}
		*into = list
	}
	if reads := fields[4]; reads != nil {
		if !rawjson.IsObject(reads) {
			return bad("reads must be an object of contents by URI")
		}
		var problem error
		err := rawjson.EachMember(reads, func(m rawjson.Member) bool {
			problem = f.canRead(string(m.Key), "", m.Value)
			return problem == nil
		})
		if err = errors.Join(err, problem); err != nil {
			return bad("reads: %v", err)
		}
	}
	if err := f.takeCanned(); err != nil {
		return bad("%v", err)
	}
	return f, nil
}

// foundKeys lists the keys of an object in which no expected key was found.
func foundKeys(data []byte) string {
	const most = 5
	var names []string
	if rawjson.EachMember(data, func(m rawjson.Member) bool {
		names = append(names, strconv.Quote(text.Fit(string(m.Key), 60)))
		return len(names) < most
	}) != nil || len(names) == 0 {
		return ""
	}
	return "; it has " + strings.Join(names, ", ")
}

func entriesOf(raw json.RawMessage) (list []json.RawMessage, err error) {
	if raw == nil || string(raw) == "null" {
		return nil, nil
	}
	if !rawjson.IsArray(raw) {
		return nil, errors.New("it must be a list")
	}
	err = rawjson.EachElement(raw, func(v []byte) bool {
		list = append(list, bytes.Clone(v))
		return true
	})
	return list, err
}

// canRead stores the contents of a URI: a text, a list of contents, or an object with one.
func (f *SnapshotFile) canRead(uri, mimeType string, value json.RawMessage) error {
	switch {
	case rawjson.IsObject(value):
		if value = rawjson.Get(value, "contents"); !rawjson.IsArray(value) {
			return fmt.Errorf("%q has no contents", text.Fit(uri, 100))
		}
		f.reads[uri] = bytes.Clone(value)
	case rawjson.IsArray(value):
		f.reads[uri] = bytes.Clone(value)
	default:
		content, err := rawjson.String(value)
		if err != nil {
			return fmt.Errorf("%q must be a text, or a list of contents", text.Fit(uri, 100))
		}
		f.reads[uri] = canned(uri, mimeType, "text", rawjson.Quote(content))
	}
	return nil
}

// canned returns a list of one content.
func canned(uri, mimeType, key string, value []byte) json.RawMessage {
	w := rawjson.NewWriter(nil).Array().Object().Key("uri").String(uri)
	if mimeType != "" {
		w.Key("mimeType").String(mimeType)
	}
	return w.Key(key).Raw(value).EndObject().EndArray().Bytes()
}

// takeCanned moves contents and messages out of the definitions.
func (f *SnapshotFile) takeCanned() error {
	for i, raw := range f.listing.Resources {
		var out [5][]byte
		if rawjson.Fields(raw, []string{"uri", "mimeType", "text", "blob", "contents"}, out[:]) != nil {
			continue // the catalog reports it
		}
		uri, mime := rawjson.Text(out[0]), rawjson.Text(out[1])
		switch {
		case out[4] != nil:
			if err := f.canRead(uri, mime, out[4]); err != nil {
				return fmt.Errorf("resources[%d]: %w", i, err)
			}
		case out[2] != nil:
			f.reads[uri] = canned(uri, mime, "text", out[2])
		case out[3] != nil:
			f.reads[uri] = canned(uri, mime, "blob", out[3])
		}
		f.listing.Resources[i] = without(raw, "text", "blob", "contents")
	}
	for i, raw := range f.listing.Prompts {
		var out [3][]byte
		if rawjson.Fields(raw, []string{"name", "messages", "description"}, out[:]) != nil || out[1] == nil {
			continue
		}
		if !rawjson.IsArray(out[1]) {
			return fmt.Errorf("prompts[%d].messages must be a list", i)
		}
		name := rawjson.Text(out[0])
		f.prompts[name], f.about[name] = bytes.Clone(out[1]), rawjson.Text(out[2])
		f.listing.Prompts[i] = without(raw, "messages")
	}
	return nil
}

func without(raw json.RawMessage, keys ...string) json.RawMessage {
	for _, key := range keys {
		if out, err := rawjson.Delete(raw, key); err == nil {
			raw = out
		}
	}
	return raw
}

// Name returns the upstream of the entries.
func (f *SnapshotFile) Name() string { return f.name }

// Listing returns the definitions of the file. Namespaces are inferred from the names, because the
// servers are unknown. It must not be changed.
func (f *SnapshotFile) Listing() primitive.Listing { return f.listing }

// Call implements mcp.Peer with the contents of the file.
func (f *SnapshotFile) Call(_ context.Context, method string, params json.RawMessage, _ mcp.Handler) (json.RawMessage, error) {
	name, uri := rawjson.Text(rawjson.Get(params, "name")), rawjson.Text(rawjson.Get(params, "uri"))
	missing := func(what, verb, fix string) error {
		return mcp.Errorf(mcp.KindMethodNotFound, "%s is from the catalog file %s, which has no server behind it: to %s it needs an upstream. %s", what, filepath.Base(f.path), verb, fix)
	}
	const configure = "Put its server under mcpServers of weir.yaml"
	switch method {
	case "tools/call":
		return nil, missing(fmt.Sprintf("tool %q", text.Fit(name, 100)), "execute", configure)
	case dispatch.MethodRead:
		if contents := f.reads[uri]; contents != nil {
			return rawjson.Object("contents", contents), nil
		}
		return nil, missing(fmt.Sprintf("resource %q", text.Fit(uri, 100)), "read", configure+", or its text into the file")
	case dispatch.MethodGet:
		messages := f.prompts[name]
		if messages == nil {
			return nil, missing(fmt.Sprintf("prompt %q", text.Fit(name, 100)), "render", configure+", or its messages into the file")
		}
		w := rawjson.NewWriter(nil).Object()
		if about := f.about[name]; about != "" {
			w.Key("description").String(about)
		}
		return w.Key("messages").Raw(filled(messages, rawjson.Get(params, "arguments"))).EndObject().Bytes(), nil
	case "completion/complete":
		return json.RawMessage(`{"completion":{"values":[]}}`), nil
	}
	return nil, mcp.MethodNotFound(method)
}

// filled replaces {{name}} by arguments. Text inside a JSON string stays inside the string.
func filled(messages, arguments json.RawMessage) []byte {
	var pairs []string
	_ = rawjson.EachMember(arguments, func(m rawjson.Member) bool { // a value that is not an object has none
		quoted := rawjson.Quote(rawjson.Text(m.Value))
		pairs = append(pairs, "{{"+string(m.Key)+"}}", string(quoted[1:len(quoted)-1]))
		return true
	})
	return []byte(strings.NewReplacer(pairs...).Replace(string(messages)))
}

// Notify implements mcp.Peer. It does nothing.
func (f *SnapshotFile) Notify(context.Context, string, json.RawMessage) error { return nil }
