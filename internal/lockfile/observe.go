package lockfile

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"iter"
	"maps"
	"slices"

	"github.com/weir-mcp/weir/internal/catalog/primitive"
	"github.com/weir-mcp/weir/internal/json/rawjson"
)

// KindServer is the kind of a server's description of itself. The other kinds are the kinds of the
// catalog: tool, prompt and resource_template.
const KindServer primitive.Kind = "server"

// Key names a definition of a server.
type Key struct {
	Kind primitive.Kind
	Name string // name of a tool or prompt, URI template; "" for the server itself
}

// Endpoint is where a server is reached, without secrets.
type Endpoint struct {
	Command, URL string
}

// observedServer has the present definitions of a server.
type observedServer struct {
	Server   string // its configured name
	Name     string // the name that it gives itself
	Version  string
	Endpoint Endpoint

	definitions map[Key]observed
}

// observed is one definition that a server offers.
type observed struct {
	hash string
	raw  json.RawMessage
}

// kinds returns the definitions of each kind.
func (s *lockedServer) kinds() iter.Seq2[primitive.Kind, map[string]*definition] {
	return func(yield func(primitive.Kind, map[string]*definition) bool) {
		about := map[string]*definition{}
		if s.About != nil {
			about[""] = s.About
		}
		_ = yield(KindServer, about) && yield(primitive.KindTool, s.Tools) && yield(primitive.KindPrompt, s.Prompts) && yield(primitive.KindTemplate, s.Templates)
	}
}

// get returns a definition, nil if there is none.
func (s *lockedServer) get(k Key) *definition {
	if s == nil {
		return nil
	}
	for kind, all := range s.kinds() {
		if kind == k.Kind {
			return all[k.Name]
		}
	}
	return nil
}

// put stores a definition. A nil one removes it.
func (s *lockedServer) put(k Key, d *definition) {
	var all *map[string]*definition
	switch k.Kind {
	case KindServer:
		s.About = d
		return
	case primitive.KindPrompt:
		all = &s.Prompts
	case primitive.KindTemplate:
		all = &s.Templates
	default:
		all = &s.Tools
	}
	if d == nil {
		delete(*all, k.Name)
		return
	}
	if *all == nil {
		*all = map[string]*definition{}
	}
	(*all)[k.Name] = d
}

// hashOf returns the hash of a definition: of its canonical JSON, which the order of members and
// white space do not change, and every other byte does. A definition with a duplicate key has no
// canonical form, because readers may disagree about it; its bytes as they are have a hash of their
// own.
func hashOf(raw []byte) string {
	form := "sha256:"
	canonical, ok := rawjson.AppendCanonical(nil, raw)
	if !ok {
		form, canonical = "raw-sha256:", raw
	}
	sum := sha256.Sum256(canonical)
	return form + hex.EncodeToString(sum[:])
}

// observe reads a listing. The result keeps the bytes of the listing's definitions.
func observe(l *primitive.Listing, at Endpoint) *observedServer {
	o := &observedServer{
		Server: l.Upstream, Endpoint: at, definitions: map[Key]observed{},
		Name: rawjson.Text(rawjson.Get(l.Greeting.ServerInfo, "name")), Version: rawjson.Text(rawjson.Get(l.Greeting.ServerInfo, "version")),
	}
	for kind, list := range definitionsOf(l) {
		for _, raw := range *list {
			// Of two definitions of one name the catalog takes the first one.
			if k, ok := keyOf(kind, raw); ok && o.definitions[k].hash == "" {
				o.definitions[k] = observed{hashOf(raw), raw}
			}
		}
	}
	if about := aboutOf(&l.Greeting); about != nil {
		o.definitions[Key{Kind: KindServer}] = observed{hashOf(about), about}
	}
	return o
}

// definitionsOf returns the lists of a listing that the lock covers. Resources are not covered: lists
// of them follow the contents of a server.
func definitionsOf(l *primitive.Listing) iter.Seq2[primitive.Kind, *[]json.RawMessage] {
	return func(yield func(primitive.Kind, *[]json.RawMessage) bool) {
		_ = yield(primitive.KindTool, &l.Tools) && yield(primitive.KindPrompt, &l.Prompts) && yield(primitive.KindTemplate, &l.ResourceTemplates)
	}
}

// keyOf returns the key of a definition. ok is false for one that the catalog leaves out as well.
func keyOf(kind primitive.Kind, raw []byte) (k Key, ok bool) {
	name, err := rawjson.String(rawjson.Get(raw, keyMember(kind)))
	return Key{kind, name}, err == nil && (name != "" || kind != primitive.KindTemplate)
}

// keyMember returns the member of a definition that names it.
func keyMember(kind primitive.Kind) string {
	if kind == primitive.KindTemplate {
		return "uriTemplate"
	}
	return "name"
}

// readable reports whether a definition has a key, and no second one, which another reader could
// take, also in another case.
func readable(kind primitive.Kind, raw []byte) bool {
	if _, ok := keyOf(kind, raw); !ok {
		return false
	}
	_, err := rawjson.Sole(raw, keyMember(kind))
	return err == nil
}

// aboutOf returns a server's description of itself as one JSON object, nil if it says nothing.
func aboutOf(g *primitive.Greeting) json.RawMessage {
	texts := map[string]string{"instructions": g.Instructions}
	for _, key := range []string{"title", "description"} {
		texts[key] = rawjson.Text(rawjson.Get(g.ServerInfo, key))
	}
	maps.DeleteFunc(texts, func(_, text string) bool { return text == "" })
	if len(texts) == 0 {
		return nil
	}
	raw, err := json.Marshal(texts)
	if err != nil {
		panic(err) // cannot happen: a map of strings
	}
	return raw
}

// Keys returns the keys of all definitions, sorted.
func (o *observedServer) Keys() []Key {
	return slices.SortedFunc(maps.Keys(o.definitions), compareKeys)
}

func compareKeys(a, b Key) int {
	return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
}

// Digest returns a hash of everything that the lock would keep of the server.
func (o *observedServer) Digest() string {
	h := sha256.New()
	write := func(texts ...string) {
		for _, text := range texts {
			_, _ = h.Write(rawjson.Quote(text)) // a hash does not fail
		}
	}
	write(o.Server, o.Name, o.Version, o.Endpoint.Command, o.Endpoint.URL)
	for _, k := range o.Keys() {
		write(string(k.Kind), k.Name, o.definitions[k].hash)
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil))
}

// lock returns the server as the lock keeps it. Definitions that were locked before keep their
// date.
func (o *observedServer) lock(before *lockedServer, date string) *lockedServer {
	s := &lockedServer{FirstSeen: date}
	if before != nil {
		s.FirstSeen = before.FirstSeen
	}
	o.identify(s)
	for k, seen := range o.definitions {
		s.put(k, seen.lock(before.get(k), date))
	}
	return s
}

// identify stores who the server says that it is, and where it is.
func (o *observedServer) identify(s *lockedServer) {
	s.Name, s.Version, s.Command, s.URL = o.Name, o.Version, o.Endpoint.Command, o.Endpoint.URL
}

// lock returns the definition as the lock keeps it.
func (d observed) lock(before *definition, date string) *definition {
	out := &definition{Hash: d.hash, FirstSeen: date}
	if before != nil {
		out.FirstSeen = before.FirstSeen
	}
	if len(d.raw) <= maxDefinition {
		out.Text = textOf(d.raw)
	}
	return out
}

// textOf returns a definition as JSON that the file can have: in canonical form, or as it is where
// the canonical form is not JSON, because of a duplicate key or an invalid character. It returns nil
// for a definition that nests so deep that the file around it could not be read again.
func textOf(raw []byte) json.RawMessage {
	if !fits(raw) {
		return nil
	}
	if text, ok := rawjson.AppendCanonical(nil, raw); ok && fits(text) {
		return text
	}
	return bytes.Clone(raw)
}

// fits reports whether a text is JSON where the file has definitions.
func fits(text []byte) bool {
	const around = 5 // objects: the file, servers, a server, its tools, a definition
	inFile := slices.Concat(bytes.Repeat([]byte{'['}, around), text, bytes.Repeat([]byte{']'}, around))
	return rawjson.Valid(text) == nil && rawjson.Valid(inFile) == nil
}
