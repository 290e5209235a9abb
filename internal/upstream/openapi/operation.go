package openapi

import (
	"cmp"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/weir-mcp/weir/internal/text"
)

// Bounds of one document.
const (
	maxOperations  = 5000
	maxDescription = 1024 // bytes of the description of a tool
	maxParts       = 16
	maxName        = 64 // bytes of the name of a tool, and of an argument
)

var methods = []string{"get", "head", "post", "put", "patch", "delete", "options"}

// operation is one tool, and how its arguments become a request.
type operation struct {
	name         string
	method, path string
	params       []param
	body         *body
	accept       string
	tool         json.RawMessage // its definition
}

// param is an argument outside of the body.
type param struct {
	arg      string // its name as an argument
	name, in string
	style    string
	explode  bool
	json     bool // it has a media type, which is JSON
}

// body is the argument that is the body of a request.
type body struct {
	arg, media string
	files      map[string]bool   // parts of multipart/form-data that are files
	types      map[string]string // media types of parts, if the document says them
}

// sorted returns the keys of an object in order.
func sorted(n node) []string { return slices.Sorted(maps.Keys(n)) }

// legal returns a text with the letters that names of tools and arguments may have.
func legal(name string, most int) string {
	fixed := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-' {
			return r
		}
		return '_'
	}, name)
	fixed = strings.Trim(fixed, "_")
	return cmp.Or(fixed[:min(len(fixed), most)], "value")
}

// unique returns a name that taken does not have, and adds it.
func unique(name string, taken map[string]bool) string {
	found := name
	for i := 2; taken[found]; i++ {
		end := "_" + strconv.Itoa(i)
		found = name[:min(len(name), maxName-len(end))] + end
	}
	taken[found] = true
	return found
}

// operations returns the operations of a document that a configuration includes. more is the number of those beyond
// the bound.
func (d *document) operations(o *Options) (all []*operation, more int) {
	paths, _ := d.root["paths"].(node)
	names := map[string]bool{}
	for _, path := range sorted(paths) {
		item := d.object(paths[path])
		for _, method := range methods {
			op := d.object(item[method])
			if op == nil || !o.offers(op, strings.ToUpper(method), path) {
				continue
			}
			if len(all) == maxOperations {
				more++
				continue
			}
			made := d.operation(o, item, op, strings.ToUpper(method), path, 1)
			for part := 2; len(made.tool) > maxSchema && part <= maxParts; part *= 2 {
				made = d.operation(o, item, op, strings.ToUpper(method), path, part)
			}
			made.name = unique(legal(cmp.Or(str(op, "operationId"), method+path), maxName), names)
			made.define(d, op)
			all = append(all, made)
		}
	}
	return all, more
}

// offers reports whether include and exclude let an operation through: by its operationId, its path, its method and
// path, or one of its tags.
func (o *Options) offers(op node, method, path string) bool {
	texts := []string{path, method + " " + path}
	if id := str(op, "operationId"); id != "" {
		texts = append(texts, id)
	}
	for _, tag := range list(op, "tags") {
		if t, ok := tag.(string); ok {
			texts = append(texts, "tag:"+t)
		}
	}
	hit := func(patterns []string) bool {
		return slices.ContainsFunc(patterns, func(p string) bool {
			return slices.ContainsFunc(texts, func(t string) bool { return text.Match(p, t) })
		})
	}
	return (len(o.Include) == 0 || hit(o.Include)) && !hit(o.Exclude)
}

// operation returns one operation without its name. Its tool is the schema of the arguments then.
// part divides the bounds of the schema.
func (d *document) operation(o *Options, item, op node, method, path string, part int) *operation {
	made := &operation{method: method, path: path}
	s, taken := newSchemas(d, part), map[string]bool{}
	properties, required := node{}, []any{}
	for _, p := range d.parameters(item, op) {
		in, name := str(p, "in"), str(p, "name")
		if !settable(o.Header, in, name) {
			continue
		}
		arg := legal(name, maxName)
		if taken[arg] {
			arg = legal(in+"_"+name, maxName)
		}
		one := param{arg: unique(arg, taken), name: name, in: in, style: str(p, "style")}
		one.style = cmp.Or(one.style, map[string]string{"query": "form", "cookie": "form"}[in], "simple")
		one.explode = one.style == "form"
		if e, said := p["explode"].(bool); said {
			one.explode = e
		}
		schema := p["schema"]
		if content, ok := p["content"].(node); ok {
			one.json = true
			for _, media := range sorted(content) {
				schema = d.object(content[media])["schema"]
			}
		}
		properties[one.arg] = s.described(schema, p)
		if yes(p, "required") || in == "path" {
			required = append(required, one.arg)
		}
		made.params = append(made.params, one)
	}
	if b := d.object(op["requestBody"]); b != nil {
		if media, schema := d.bodyOf(b); media != "" {
			made.body = &body{arg: unique("body", taken), media: media}
			d.partsOf(made.body, d.object(d.object(b["content"])[media]), schema)
			properties[made.body.arg] = s.described(made.body.written(schema), b)
			if yes(b, "required") {
				required = append(required, made.body.arg)
			}
		}
	}
	schema := node{"type": "object", "properties": properties, "additionalProperties": false}
	if len(required) > 0 {
		schema["required"] = required
	}
	if len(s.defs) > 0 {
		schema["$defs"] = s.defs
	}
	made.tool, _ = json.Marshal(schema)
	made.accept = d.accept(op)
	return made
}

// settable reports whether callers may set a parameter. Headers of the protocol, of credentials and of the
// configuration are not theirs.
func settable(fixed http.Header, in, name string) bool {
	switch in {
	case "path", "query", "cookie":
		return name != ""
	case "header":
		key := http.CanonicalHeaderKey(name)
		return name != "" && fixed.Get(key) == "" && !slices.Contains([]string{
			"Accept", "Authorization", "Connection", "Content-Length", "Content-Type", "Cookie", "Host", "Proxy-Authorization", "Te", "Transfer-Encoding", "Upgrade",
		}, key)
	}
	return false
}

// parameters returns the parameters of an operation. It has the parameters of its path as well, unless it replaces them.
func (d *document) parameters(item, op node) (all []node) {
	seen := map[string]bool{}
	for _, each := range []node{op, item} {
		for _, v := range list(each, "parameters") {
			p := d.object(v)
			if key := str(p, "in") + " " + str(p, "name"); p != nil && !seen[key] {
				seen[key] = true
				all = append(all, p)
			}
		}
	}
	return all
}

// described converts a schema and gives it the description of its owner, if it has none.
func (s *schemas) described(schema any, owner node) any {
	out := s.convert(schema, 2)
	if n, ok := out.(node); ok && n["description"] == nil {
		if about := s.describe(owner); about != "" {
			n["description"] = about
		}
	}
	return out
}

// isJSON reports whether a media type is JSON.
func isJSON(media string) bool {
	media, _, _ = strings.Cut(strings.ToLower(media), ";")
	media = strings.TrimSpace(media)
	return media == "application/json" || strings.HasSuffix(media, "+json") || media == "text/json"
}

const (
	formMedia      = "application/x-www-form-urlencoded"
	multipartMedia = "multipart/form-data"
)

// bodyOf returns the media type in which weir sends a body, JSON where the API takes it, and its schema.
func (d *document) bodyOf(b node) (media string, schema any) {
	content := d.object(b["content"])
	rank := func(media string) int {
		switch plain, _, _ := strings.Cut(media, ";"); {
		case plain == "application/json":
			return 0
		case isJSON(media):
			return 1
		case plain == multipartMedia:
			return 2
		case plain == formMedia:
			return 3
		case strings.HasPrefix(plain, "text/"):
			return 4
		case plain == "*/*":
			return 6
		}
		return 5
	}
	all := sorted(content)
	if len(all) == 0 {
		return "", nil
	}
	slices.SortStableFunc(all, func(a, b string) int { return cmp.Compare(rank(a), rank(b)) })
	return all[0], d.object(content[all[0]])["schema"]
}

// partsOf notes which parts of a form are files.
func (d *document) partsOf(b *body, content node, schema any) {
	if !strings.HasPrefix(b.media, multipartMedia) {
		return
	}
	b.files, b.types = map[string]bool{}, map[string]string{}
	isFile := func(v any) bool {
		n := d.object(v)
		encoded := str(n, "contentEncoding")
		return str(n, "format") == "binary" || str(n, "contentMediaType") == "application/octet-stream" && encoded == ""
	}
	var look func(v any, depth int)
	look = func(v any, depth int) {
		n := d.object(v)
		if depth > maxRefs {
			return
		}
		for _, key := range []string{"allOf", "anyOf", "oneOf"} {
			for _, part := range list(n, key) {
				look(part, depth+1)
			}
		}
		members, _ := n["properties"].(node)
		for name, member := range members {
			if isFile(member) || isFile(d.object(member)["items"]) {
				b.files[name] = true
			}
		}
	}
	look(schema, 0)
	encoding, _ := content["encoding"].(node)
	for name, v := range encoding {
		if media := str(d.object(v), "contentType"); media != "" && !strings.ContainsAny(media, ",*") {
			b.types[name] = media
		}
	}
}

// written returns the schema of the argument for a body. Text and bytes are a text, bytes in base64.
func (b *body) written(schema any) any {
	switch {
	case isJSON(b.media), strings.HasPrefix(b.media, multipartMedia), strings.HasPrefix(b.media, formMedia):
		return schema
	case b.isText():
		return node{"type": "string", "contentMediaType": b.media}
	}
	return node{"type": "string", "format": "binary", "contentMediaType": b.media}
}

func (b *body) isText() bool {
	return strings.HasPrefix(b.media, "text/") || strings.Contains(b.media, "xml") || strings.Contains(b.media, "yaml") || strings.Contains(b.media, "ndjson")
}

// accept returns the value of the header Accept: what the document says of answers, JSON first.
func (d *document) accept(op node) string {
	responses, _ := op["responses"].(node)
	var all []string
	for _, code := range sorted(responses) {
		content, _ := d.object(responses[code])["content"].(node)
		for _, media := range sorted(content) {
			if strings.HasPrefix(code, "2") && !slices.Contains(all, media) && len(all) < 8 && !strings.ContainsAny(media, "\r\n") {
				all = append(all, media)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b string) int {
		return cmp.Compare(map[bool]int{true: 0, false: 1}[isJSON(a)], map[bool]int{true: 0, false: 1}[isJSON(b)])
	})
	return strings.Join(append(all, "application/json;q=0.9", "*/*;q=0.5"), ", ")
}

// define makes the definition of the tool, whose schema tool has so far.
func (o *operation) define(d *document, op node) {
	about := strings.TrimSpace(str(op, "summary"))
	if more := strings.TrimSpace(str(op, "description")); more != "" && more != about {
		about = strings.TrimSpace(about + "\n\n" + more)
	}
	about = text.Fit(about, maxDescription)
	about = strings.TrimSpace(about + "\n\n" + o.method + " " + o.path)
	hints := node{"openWorldHint": true}
	switch o.method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		hints["readOnlyHint"], hints["idempotentHint"] = true, true
	case http.MethodPut:
		hints["readOnlyHint"], hints["idempotentHint"], hints["destructiveHint"] = false, true, true
	case http.MethodDelete:
		hints["readOnlyHint"], hints["idempotentHint"], hints["destructiveHint"] = false, true, true
	default:
		hints["readOnlyHint"], hints["idempotentHint"] = false, false
	}
	tool := node{"name": o.name, "description": about, "inputSchema": o.tool, "annotations": hints}
	if title := text.Fit(strings.TrimSpace(str(op, "summary")), 120); title != "" {
		tool["title"] = title
	}
	o.tool, _ = json.Marshal(tool)
}
