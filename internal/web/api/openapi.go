package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path"
	"reflect"
	"regexp"
	"strings"
	"time"
)

// openapi serves openapi.json.
func (a *API) openapi(w http.ResponseWriter, _ *http.Request) error { return write(w, a.document()) }

// an object is one of the OpenAPI document.
type object = map[string]any

// placeholder finds the parameters of a path.
var placeholder = regexp.MustCompile(`\{(\w+)\}`)

// document returns the OpenAPI 3.1 document of the table of routes.
func (a *API) document() object {
	s := &schemas{named: object{}, types: map[string]reflect.Type{}}
	errors := object{"description": "An error", "content": object{"application/json": object{"schema": s.of(reflect.TypeFor[errorAnswer]())}}}
	paths := object{}
	for _, r := range a.routes() {
		answer := object{"description": r.summary}
		switch {
		case r.stream != "":
			answer["content"] = object{r.stream: object{"schema": object{"type": "string"}}}
		case r.answer != nil:
			answer["content"] = object{"application/json": object{"schema": s.of(reflect.TypeOf(r.answer))}}
		}
		operation := object{
			"summary": r.summary, "operationId": operationID(&r), "tags": []string{string(r.right)}, "parameters": parametersOf(&r),
			"responses": object{"200": answer, "default": errors},
		}
		if r.body != nil {
			operation["requestBody"] = object{"required": true, "content": object{"application/json": object{"schema": s.of(reflect.TypeOf(r.body))}}}
		}
		if r.right == mayExchange {
			operation["security"] = []object{}
		}
		at, _ := paths[Path+r.path].(object)
		if at == nil {
			at = object{}
			paths[Path+r.path] = at
		}
		at[strings.ToLower(r.method)] = operation
	}
	return object{
		"openapi":    "3.1.0",
		"info":       object{"title": "weir", "version": "1", "description": "What viewers read of a gateway (look), and what operators do with it (operate)."},
		"security":   []object{{"bearer": []string{}}, {}},
		"paths":      paths,
		"components": object{"schemas": s.named, "securitySchemes": object{"bearer": object{"type": "http", "scheme": "bearer"}}},
	}
}

// errorAnswer is an error, as guard.WriteError writes it.
type errorAnswer struct {
	JSONRPC string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Error   struct {
		Code    int             `json:"code"`
		Message string          `json:"message"`
		Data    json.RawMessage `json:"data,omitempty"`
	} `json:"error"`
}

// operationID names a route: getServersName.
func operationID(r *route) string {
	var id strings.Builder
	id.WriteString(strings.ToLower(r.method))
	for part := range strings.FieldsFuncSeq(r.path, func(c rune) bool { return strings.ContainsRune("/{}._", c) }) {
		id.WriteString(strings.ToUpper(part[:1]) + part[1:])
	}
	return id.String()
}

func parametersOf(r *route) []object {
	all := []object{}
	for _, m := range placeholder.FindAllStringSubmatch(r.path, -1) {
		all = append(all, object{"name": m[1], "in": "path", "required": true, "schema": object{"type": "string"}})
	}
	for _, p := range r.query {
		all = append(all, object{"name": p[0], "in": "query", "description": p[1], "schema": object{"type": "string"}})
	}
	return all
}

// schemas makes JSON Schemas of Go types, as encoding/json writes them. A struct gets a name.
type schemas struct {
	named object
	types map[string]reflect.Type
}

var (
	rawType   = reflect.TypeFor[json.RawMessage]()
	timeType  = reflect.TypeFor[time.Time]()
	marshaler = reflect.TypeFor[json.Marshaler]()
)

func (s *schemas) of(t reflect.Type) object {
	switch {
	case t == rawType:
		return object{}
	case t == timeType:
		return object{"type": "string", "format": "date-time"}
	case t.Kind() != reflect.Pointer && t.Implements(marshaler):
		return object{}
	}
	switch t.Kind() {
	case reflect.String:
		return object{"type": "string"}
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.Float32, reflect.Float64:
		return object{"type": "number"}
	case reflect.Int, reflect.Int32, reflect.Int64, reflect.Uint64, reflect.Uint32, reflect.Uint:
		return object{"type": "integer"}
	case reflect.Pointer:
		return object{"anyOf": []object{s.of(t.Elem()), {"type": "null"}}}
	case reflect.Slice, reflect.Array:
		return object{"type": []string{"array", "null"}, "items": s.of(t.Elem())}
	case reflect.Map:
		return object{"type": "object", "additionalProperties": s.of(t.Elem())}
	case reflect.Interface:
		return object{}
	case reflect.Struct:
		return s.structure(t)
	}
	panic(fmt.Sprintf("api: no schema for %v", t)) // a type of the table of routes, which a test reads
}

// structure returns the schema of a struct, or a reference to it.
func (s *schemas) structure(t reflect.Type) object {
	name := t.Name()
	if name != "" {
		name = strings.ToUpper(name[:1]) + name[1:]
		if of, taken := s.types[name]; taken && of != t {
			name = strings.ToUpper(path.Base(t.PkgPath())[:1]) + path.Base(t.PkgPath())[1:] + name
		}
		s.types[name] = t
		reference := object{"$ref": "#/components/schemas/" + name}
		if s.named[name] != nil {
			return reference
		}
		s.named[name] = object{} // the type may contain itself
		s.named[name] = s.members(t)
		return reference
	}
	return s.members(t)
}

func (s *schemas) members(t reflect.Type) object {
	properties, required := object{}, []string{}
	var add func(t reflect.Type)
	add = func(t reflect.Type) {
		var embedded []reflect.Type
		for i := range t.NumField() {
			f := t.Field(i)
			name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
			inner := f.Type
			if inner.Kind() == reflect.Pointer {
				inner = inner.Elem()
			}
			switch {
			case f.Anonymous && name == "" && inner.Kind() == reflect.Struct:
				embedded = append(embedded, inner)
				continue
			case !f.IsExported() || name == "-":
				continue
			case name == "":
				name = f.Name
			}
			if properties[name] != nil {
				continue // a member of an outer struct hides it
			}
			properties[name] = s.of(f.Type)
			if !strings.Contains(options, "omit") {
				required = append(required, name)
			}
		}
		for _, inner := range embedded {
			add(inner)
		}
	}
	add(t)
	return object{"type": "object", "properties": properties, "required": required, "additionalProperties": false}
}
