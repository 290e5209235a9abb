package catalog

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/weir-mcp/weir/internal/catalog/primitive"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/text"
	"github.com/weir-mcp/weir/internal/text/uritemplate"
	"github.com/weir-mcp/weir/internal/text/visible"
)

// Entry is one tool, resource, resource template or prompt. Catalogs share it, so it must not be
// changed.
type Entry struct {
	ID        string // unique and opaque
	Short     string // ID without the suffix that distinguishes it from equal ids
	Kind      primitive.Kind
	Upstream  string // server that offers it
	Namespace string
	Name      string // the name part of the id
	RawName   string // name at the upstream, or the name that the operator gives it
	URI       string // of a resource; of a template, its URI template
	Version   string // "" if none is declared
	Hash8     string // hash of its shape, even if not part of the id

	// Original bytes of the definition and its parts, nil if absent. The InputSchema of a prompt is
	// made from its arguments, the InputSchema of a resource template from its variables.
	Raw          json.RawMessage
	InputSchema  json.RawMessage
	OutputSchema json.RawMessage
	Annotations  json.RawMessage

	Title       string
	Description string   // complete, as received
	Tags        []string // sorted; more and longer than on the card

	// Hints that the upstream gives about itself. They are information, not access control.
	ReadOnly    bool
	Destructive bool
	Idempotent  bool
	OpenWorld   bool

	// ResourceTool says that the tool takes abstract_domains, as a resource tool of
	// S2SP does: it divides its results itself.
	ResourceTool bool

	// TaskSupport is "required" or "optional" if the tool runs as a task of MCP, otherwise "".
	TaskSupport string

	// Page is the URI of the page that a host shows for the tool (MCP Apps), "" if it has none. The
	// server need not list it.
	Page string

	Card Card

	// Hidden are the kinds of invisible characters in the definition. Raw and its parts contain
	// them; the card does not.
	Hidden visible.Kinds

	// Own says that the server has listed the entry for one principal; see Lists.
	Own bool

	// Override is what the operator has changed of the tool, nil without a change. The entry is as
	// agents see it, RawName included; see ServerName. Listed is the definition of the server.
	Override *primitive.Override
	Listed   json.RawMessage

	cost    float64
	lost    string   // the name as the server says it, if the id lacks letters of it
	note    string   // on the card; see Listing.Notes
	digest  [32]byte // of Raw
	check   *validator
	problem error // why InputSchema is invalid
}

// ServerName returns the name at the upstream.
func (e *Entry) ServerName() string {
	if e.Override != nil {
		return e.Override.Tool
	}
	return e.RawName
}

// Changed reports whether the definition differs from the one that an operator has agreed to.
func (e *Entry) Changed() bool { return e.note != "" }

// Digest returns a hash of the definition.
func (e *Entry) Digest() [32]byte { return e.digest }

// maxIdentifier bounds a name or URI, in bytes. An entry with a longer one is left out, because a cut
// identifier would name something else.
const maxIdentifier = 8 << 10

// abstractDomains is the parameter of a resource tool (spec/tables §2).
const abstractDomains = "abstract_domains"

// Param is one top-level parameter of an entry's input schema.
type Param struct {
	Name        string
	Description string
	Required    bool
	Values      []string // the strings of its enum
}

// Params returns the parameters of the entry in the order of its schema.
func (e *Entry) Params() []Param {
	_, required := shape(e.InputSchema)
	var params []Param
	members(member(e.InputSchema, "properties"), func(key, value []byte) bool {
		name := strings.ToValidUTF8(string(key), "\uFFFD")
		description, _ := stringOf(member(value, "description"))
		_, isRequired := slices.BinarySearch(required, name)
		params = append(params, Param{name, description, isRequired, texts(member(value, "enum"))})
		return true
	})
	return params
}

// definition is a parsed definition without an id.
type definition struct {
	name, title, description, uri string
	hasName                       bool
	inputSchema, outputSchema     []byte
	annotations, meta, arguments  []byte
	execution                     []byte
}

// readDefinition reads the known fields by their exact names.
func readDefinition(raw []byte, kind primitive.Kind) (d definition, ok bool) {
	uriKey := "uri"
	if kind == primitive.KindTemplate {
		uriKey = "uriTemplate"
	}
	ok = members(raw, func(key, value []byte) bool {
		switch string(key) {
		case "name":
			d.name, d.hasName = stringOf(value)
		case "title":
			d.title, _ = stringOf(value)
		case "description":
			d.description, _ = stringOf(value)
		case "inputSchema":
			d.inputSchema = value
		case "outputSchema":
			d.outputSchema = value
		case "annotations":
			d.annotations = value
		case "_meta":
			d.meta = value
		case "arguments":
			d.arguments = value
		case "execution":
			d.execution = value
		case uriKey:
			d.uri, _ = stringOf(value)
		}
		return true
	})
	return d, ok
}

// ingest is the result of reading one definition.
type ingest struct {
	entry    *Entry // nil if there is none
	findings []Finding
	partial  bool // a part of the definition was dropped
}

// readEntry makes an entry from a definition. Problems become findings; only a definition that
// cannot be called has no entry.
func readEntry(raw json.RawMessage, kind primitive.Kind, l *primitive.Listing, limits Limits, shared *compiledSchemas) (in ingest) {
	found := func(kind FindingKind, name, format string, args ...any) {
		in.findings = append(in.findings, Finding{Kind: kind, Upstream: l.Upstream, Name: name, Message: fmt.Sprintf(format, args...)})
	}
	if !json.Valid(raw) {
		found(FoundInvalid, "", "server %q lists a %s that is not valid JSON", l.Upstream, kind.Surface())
		return in
	}
	whole, cut, longest, err := primitive.BoundTexts(bytes.TrimSpace(raw))
	if err != nil {
		in.partial = true
		found(FoundInvalid, "", "server %q lists a %s that is left out: %v, and %d are allowed; its owner has to shorten it", l.Upstream, kind.Surface(), err, primitive.MaxText)
		return in
	}
	if cut == 0 {
		whole = bytes.Clone(whole)
	}
	raw = whole
	d, ok := readDefinition(raw, kind)
	if n := max(len(d.name), len(d.uri)); n > maxIdentifier {
		in.partial = true
		found(FoundInvalid, clip(d.name, 140), "server %q lists a %s with a name or URI of %d bytes, which is left out: %d are allowed", l.Upstream, kind.Surface(), n, maxIdentifier)
		return in
	}
	switch {
	case !ok:
		found(FoundInvalid, "", "server %q lists a %s that is %s, not an object", l.Upstream, kind.Surface(), kindOf(raw))
		return in
	case (kind == primitive.KindTool || kind == primitive.KindPrompt) && !d.hasName:
		found(FoundInvalid, "", "server %q lists a %s without a name: it cannot be called", l.Upstream, kind)
		return in
	case (kind == primitive.KindResource || kind == primitive.KindTemplate) && d.uri == "":
		found(FoundInvalid, d.name, "server %q lists a resource without a URI: it cannot be read", l.Upstream)
		return in
	}
	var override *primitive.Override
	var listed json.RawMessage
	if kind == primitive.KindTool {
		override = limits.overridesOf(l.Upstream)[d.name]
	}
	if override != nil {
		name := d.name
		if unknown := override.Unknown(raw); len(unknown) > 0 {
			found(FoundOverride, name, "mcpServers.%s.overrides.%s names the parameter %q, which the tool does not have: it may be misspelt",
				l.Upstream, name, strings.Join(unknown, `", "`))
		}
		listed = raw
		if raw, err = override.Apply(raw); err != nil {
			in.partial = true
			found(FoundOverride, name, "the tool %q of server %q is left out: mcpServers.%s.overrides.%s.%v", name, l.Upstream, l.Upstream, name, err)
			return in
		}
		d, _ = readDefinition(raw, kind)
	}
	e := &Entry{
		Kind: kind, Override: override, Listed: listed, Upstream: l.Upstream, RawName: d.name, URI: d.uri, Raw: raw,
		Title: d.title, Description: d.description, digest: digest(raw),
	}
	key := e.key()
	if cut > 0 {
		in.partial = true
		found(FoundTextCut, key, "%d texts of %s %q of server %q are cut to %d bytes, the longest of %d; its owner has to shorten them",
			cut, kind.Surface(), clip(key, 140), l.Upstream, primitive.MaxText, longest)
	}
	if e.Hidden = primitive.Hidden(raw); e.Hidden != 0 {
		found(FoundHidden, key, "the definition of %s %q of server %q holds %s: models read what nobody sees. They are left out of cards and descriptions, and under a strict pin it does not run; its owner has to take them out",
			kind.Surface(), clip(key, 140), l.Upstream, e.Hidden)
	}
	if !absent(d.annotations) {
		e.Annotations = d.annotations
	}
	if !absent(d.outputSchema) {
		e.OutputSchema = d.outputSchema
	}
	e.readAnnotations(d.annotations)
	if e.Title == "" {
		e.Title, _ = stringOf(member(d.annotations, "title"))
	}
	e.readMeta(d.meta, func(version string) {
		found(FoundVersion, key, "_meta.version of %s %q of server %q is %s, not a number or a string of [A-Za-z0-9._-]{1,32}, and is ignored: the id has a hash in its place",
			kind.Surface(), clip(key, 140), l.Upstream, clip(collapse(version), 60))
	})
	e.readCost(d.meta, d.annotations)
	e.tag(l.Tags, d.annotations, d.meta, func(dropped int) {
		found(FoundTags, key, "%d tags are left out: tags carry no addresses and no JSON, and an entry at most %d", dropped, maxTags)
	})

	switch kind {
	case primitive.KindTool:
		if absent(d.inputSchema) {
			found(FoundNoSchema, key, "tool %q of server %q has no inputSchema: any object is accepted as its arguments", d.name, l.Upstream)
		} else {
			e.InputSchema = d.inputSchema
			e.ResourceTool = bytes.Contains(e.InputSchema, []byte(`"`+abstractDomains+`"`)) && member(member(e.InputSchema, "properties"), abstractDomains) != nil
		}
		e.Hash8 = hashTool(d.name, e.InputSchema)
		if support, _ := stringOf(member(d.execution, "taskSupport")); support == "required" || support == "optional" {
			e.TaskSupport = support
		}
		e.Page = pageOf(d.meta)
	case primitive.KindPrompt:
		var names []string
		e.InputSchema, names = promptSchema(d.arguments)
		e.Hash8 = hashPrompt(d.name, names)
	default:
		e.Hash8 = hashResource(d.uri)
		if kind == primitive.KindTemplate {
			if e.InputSchema, err = templateSchema(d.uri); err != nil {
				e.problem = err
				found(FoundSchema, key, "the URI template %q of server %q cannot be read (%v): reading it fails with SCHEMA_INVALID until its owner mends it", clip(d.uri, 120), l.Upstream, err)
			}
		}
	}
	if reject := e.checkSchemas(limits, found); reject && limits.OnInvalid == rejectInvalid {
		found(FoundRejected, key, "%s %q of server %q is left out: schema_limits.on_invalid is reject", kind.Surface(), key, l.Upstream)
		return in
	}
	e.check = &validator{schema: e.InputSchema, shared: shared}

	mapped := e.identify(l.Namespace)
	if mapped != "" {
		found(FoundMapped, key, "%s", mapped)
	}
	if collapse(e.Description) == "" {
		found(FoundNoText, key, "%s %q of server %q has no description: agents cannot tell what it does", kind.Surface(), key, l.Upstream)
	}
	e.note = l.Notes[e.Key()]
	e.buildCard()
	if e.overBudget() {
		found(FoundOverBudget, key, "%s", e.budgetFinding())
	}
	for i := range in.findings {
		in.findings[i].ID = e.ID
	}
	in.entry = e
	return in
}

// key identifies the entry among the entries of its kind and upstream.
func (e *Entry) key() string {
	if e.URI != "" {
		return e.URI
	}
	return e.RawName
}

func (e *Entry) readAnnotations(raw []byte) {
	members(raw, func(key, value []byte) bool {
		switch string(key) {
		case "readOnlyHint":
			e.ReadOnly = isTrue(value)
		case "destructiveHint":
			e.Destructive = isTrue(value)
		case "idempotentHint":
			e.Idempotent = isTrue(value)
		case "openWorldHint":
			e.OpenWorld = isTrue(value)
		}
		return true
	})
}

// readMeta reads the version: the key version, or one with the server's prefix, such as
// "example.com/version".
func (e *Entry) readMeta(meta []byte, illegal func(version string)) {
	version := metaField(meta, "version")
	if !absent(version) {
		s, ok := stringOf(version)
		if !ok && kindOf(version) == "number" {
			s, ok = string(bytes.TrimSpace(version)), true // keep the spelling: 1.10 is not 1.1
		}
		if ok && legalVersion(s) {
			e.Version = s
		} else {
			illegal(string(version))
		}
	}
}

// maxPageURI bounds the URI of a tool's page, in bytes.
const maxPageURI = 4 << 10

// pageOf returns the URI of the page in a tool's _meta, in either of its two forms.
func pageOf(meta []byte) string {
	uri, _ := stringOf(member(member(meta, "ui"), "resourceUri"))
	if uri == "" {
		uri, _ = stringOf(member(meta, "ui/resourceUri"))
	}
	if !strings.HasPrefix(uri, "ui://") || len(uri) > maxPageURI {
		return ""
	}
	return uri
}

// readCost reads the cost of a call: cost_hint in _meta, with or without the server's prefix,
// otherwise costHint in annotations.
func (e *Entry) readCost(meta, annotations []byte) {
	for _, hint := range [][]byte{metaField(meta, "cost_hint"), member(annotations, "costHint")} {
		if cost, err := strconv.ParseFloat(string(hint), 64); err == nil && cost > 0 && cost < 1e9 {
			e.cost = cost
			return
		}
	}
}

// metaField returns the value of a key in _meta, or of the first key that ends with "/" and that
// name.
func metaField(meta []byte, name string) []byte {
	var plain, prefixed []byte
	members(meta, func(key, value []byte) bool {
		switch {
		case string(key) == name:
			plain = value
		case prefixed == nil && strings.HasSuffix(string(key), "/"+name):
			prefixed = value
		}
		return true
	})
	if plain != nil {
		return plain
	}
	return prefixed
}

// tag collects the tags of the upstream, of the configuration and of the hints.
func (e *Entry) tag(configured []string, annotations, meta []byte, onDropped func(int)) {
	tags := slices.Clone(configured)
	read := func(raw []byte) {
		elements(raw, func(value []byte) bool {
			if s, ok := stringOf(value); ok {
				tags = append(tags, s)
			}
			return len(tags) < 16*maxTags
		})
	}
	read(metaField(meta, "tags"))
	for _, nested := range []string{"fastmcp", "_fastmcp"} { // FastMCP servers put tags here
		read(member(member(meta, nested), "tags"))
	}
	read(member(annotations, "tags"))
	if e.ReadOnly {
		tags = append(tags, tagReadOnly)
	}
	if e.Destructive {
		tags = append(tags, tagDestructive)
	}
	var dropped int
	if e.Tags, dropped = cleanTags(tags); dropped > 0 {
		onDropped(dropped)
	}
}

// checkSchemas checks both schemas of a tool and reports whether one is invalid or over a limit.
func (e *Entry) checkSchemas(limits Limits, found func(FindingKind, string, string, ...any)) (bad bool) {
	if e.Kind != primitive.KindTool {
		return false
	}
	for _, s := range []struct {
		field string
		raw   []byte
	}{{"inputSchema", e.InputSchema}, {"outputSchema", e.OutputSchema}} {
		if s.raw == nil {
			continue
		}
		if excess := limits.excess(s.raw); excess != "" {
			bad = true
			found(FoundSchemaLimit, e.RawName, "%s of tool %q of server %q is %s", s.field, e.RawName, e.Upstream, excess)
		}
		c, err := checkSchema(s.raw)
		if c.dialect != nil {
			found(FoundDialect, e.RawName, "%s of tool %q of server %q names the dialect %q in $schema, which is none of JSON Schema: it is read as 2020-12",
				s.field, e.RawName, e.Upstream, clip(*c.dialect, 100))
		}
		switch {
		case err != nil && s.field == "inputSchema":
			bad = true
			e.problem = err
			found(FoundSchema, e.RawName, "%s of tool %q of server %q is invalid (%s): calls fail with SCHEMA_INVALID until its owner mends it",
				s.field, e.RawName, e.Upstream, schemaProblem(err))
		case err != nil:
			bad = true
			found(FoundSchema, e.RawName, "%s of tool %q of server %q is invalid (%s)", s.field, e.RawName, e.Upstream, schemaProblem(err))
		case len(c.unchecked) > 0:
			found(FoundPattern, e.RawName, "%s of tool %q of server %q has the pattern %s, which is left to the server to check",
				s.field, e.RawName, e.Upstream, clip(c.unchecked[0], 100))
		}
	}
	return bad
}

// SchemaError returns the reason why the input schema is invalid, or nil.
func (e *Entry) SchemaError() error { return e.problem }

// identify sets the entry's namespace, name and id. It returns the name that had to be mapped to
// the grammar, or "".
func (e *Entry) identify(configured string) (mapped string) {
	var namespace, name string
	if e.Kind == primitive.KindResource || e.Kind == primitive.KindTemplate {
		namespace, name = resourceName(e.URI, e.RawName, configured)
	} else {
		namespace, name = infer(e.RawName)
		if configured != "" {
			namespace, name = configured, stripPrefix(e.RawName, MapNamespace(configured))
		}
	}
	e.Namespace, e.Name = MapNamespace(namespace), mapName(name)
	if raw := cmp.Or(e.RawName, name); losesLetters(raw) {
		e.lost = raw
	}
	// Resources and prompts are always identified by their shape: two documents may have the same
	// version.
	if e.Kind == primitive.KindTool && e.Version != "" {
		e.setID(e.Version, "")
	} else {
		e.setID("", e.Hash8)
	}
	switch {
	case e.Name != name:
		return fmt.Sprintf("the name %q is not legal in an id and becomes %q", clip(name, 140), e.Name)
	case e.Namespace != namespace && configured == "":
		return fmt.Sprintf("the namespace %q is not legal in an id and becomes %q", clip(namespace, 80), e.Namespace)
	}
	return ""
}

func (e *Entry) setID(version, hash8 string) {
	e.ID = prefixOf(e.Kind) + ToolID{e.Namespace, e.Name, version, hash8}.join()
	e.Short = e.ID
}

// NamedBy reports whether a pattern of a configuration matches a name of the entry: its id, with or
// without the hash, which people leave out, its short id, or the name at its server. Without the
// short id, a server could leave a rule by listing a second tool of the same name.
func (e *Entry) NamedBy(pattern string) bool {
	if text.Match(pattern, e.ID) || text.Match(pattern, e.RawName) || e.Short != e.ID && e.Short != "" && text.Match(pattern, e.Short) {
		return true
	}
	plain, _, hashed := strings.Cut(e.ID, "#")
	return hashed && text.Match(pattern, plain)
}

func (e *Entry) buildCard() {
	name := clip(cmp.Or(collapse(e.lost), e.Name), maxCardName)
	schema := string(bytes.TrimSpace(e.InputSchema))
	e.Card = Card{
		ID:          e.ID,
		Name:        name,
		Tags:        cardTags(e.Tags),
		Kind:        e.Kind.Surface(),
		Namespace:   e.Namespace,
		HasSchema:   schema != "" && schema != "{}",
		CostHint:    e.cost,
		SideEffects: e.Kind == primitive.KindTool && !e.ReadOnly,
		Signature:   e.signature(),
		Safety:      safetyOf(e.Tags),
	}
	if e.Card.SideEffects && absent(member(e.Annotations, "readOnlyHint")) && absent(member(e.Annotations, "destructiveHint")) && e.reads() {
		e.Card.SideEffects, e.Card.Undeclared = false, true
	}
	description := withoutJunk(e.Description)
	if collapse(description) == "" {
		description = e.Title
	}
	if e.lost != "" {
		description = strings.TrimSuffix(name+": "+collapse(description), ": ")
	}
	e.Card.fit(description)
	if e.note != "" {
		e.Card = e.Card.Noted(e.note)
	}
}

// overBudget reports whether the card exceeds cardHardCap although its description is empty. Such
// an entry is listed anyway: otherwise a long name could hide a tool.
func (e *Entry) overBudget() bool { return e.Card.Tokens > cardHardCap }

func (e *Entry) budgetFinding() string {
	return fmt.Sprintf("its card has %d tokens even without a description, at most %d are allowed", e.Card.Tokens, cardHardCap)
}

// renamed returns a copy of the entry under another id.
func (e *Entry) renamed(id string) *Entry {
	c := *e
	c.ID = id
	c.buildCard()
	return &c
}

// templateSchema makes an input schema from the variables of a URI template. Values may be strings
// or numbers. A variable with the modifier * also takes a list or an object (RFC 6570 §2.4.2).
func templateSchema(raw string) (json.RawMessage, error) {
	t, err := uritemplate.Parse(raw)
	if err != nil {
		return nil, err
	}
	b, required := []byte(`{"type":"object","properties":{`), []byte(`[`)
	for i, v := range t.Vars() {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(rawjson.AppendString(b, v.Name), `:{"type":["string","number","boolean"`...)
		if v.Several {
			const some = `{"type":["string","number","boolean"]}`
			b = append(b, `,"array","object"],"items":`+some+`,"additionalProperties":`+some...)
			if !v.Optional {
				b = append(b, `,"minItems":1,"minProperties":1`...)
			}
			b = append(b, '}')
		} else {
			b = append(b, `]}`...)
		}
		if !v.Optional {
			if len(required) > 1 {
				required = append(required, ',')
			}
			required = rawjson.AppendString(required, v.Name)
		}
	}
	return append(append(append(b, `},"required":`...), required...), `],"additionalProperties":false}`...), nil
}

// promptSchema makes an input schema from a prompt's arguments, which are strings, and returns
// their names.
func promptSchema(arguments []byte) (schema json.RawMessage, names []string) {
	b := []byte(`{"type":"object","properties":{`)
	required := []byte(`[`)
	seen := map[string]bool{}
	elements(arguments, func(value []byte) bool {
		name, ok := stringOf(member(value, "name"))
		if !ok || seen[name] {
			return true
		}
		seen[name] = true
		if len(names) > 0 {
			b = append(b, ',')
		}
		names = append(names, name)
		b = rawjson.AppendString(b, name)
		b = append(b, `:{"type":"string"`...)
		if description, ok := stringOf(member(value, "description")); ok {
			b = append(b, `,"description":`...)
			b = rawjson.AppendString(b, description)
		}
		b = append(b, '}')
		if isTrue(member(value, "required")) {
			if len(required) > 1 {
				required = append(required, ',')
			}
			required = rawjson.AppendString(required, name)
		}
		return true
	})
	if len(names) == 0 {
		return nil, nil
	}
	b = append(b, `},"required":`...)
	b = append(b, required...)
	return append(b, `]}`...), names
}
