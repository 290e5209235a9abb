package mcp

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/weir-mcp/weir/internal/json/rawjson"
)

func TestParams(t *testing.T) {
	cases := []struct {
		params                         string
		name, uri, arguments, rawState string
		plain                          bool
		unique, twice                  string // keys that stand once, keys that stand twice
	}{
		{params: ``, plain: true, unique: "name"},
		{params: `{}`, plain: true, unique: "_meta"},
		{params: `{"name":"a","arguments":{"name":"b"},"_meta":{"progressToken":1}}`, name: `"a"`, arguments: `{"name":"b"}`, plain: true, unique: "name"},
		{params: `{"n\u0061me":"a"}`, name: `"a"`, plain: true},
		{params: `{"uri":"x:y"}`, uri: `"x:y"`},
		{params: `{"requestState":"s"}`, rawState: `"s"`},
		{params: `{"name":"a","task":{}}`, name: `"a"`},
		{params: `{"name":"a","Name":"b"}`, name: `"a"`},
		{params: `{"name":"a","name":"b","arguments":{}}`, arguments: `{}`, unique: "arguments", twice: "name"},
		{params: `{"_meta":{},"_meta":{}}`, twice: "_meta"},
		{params: `[1]`, twice: "name"},
		{params: `{"name":"a"`, twice: "name"},
	}
	for _, c := range cases {
		r := Request{Params: json.RawMessage(c.params)}
		p := r.Fields()
		if string(p.Name) != c.name || string(p.URI) != c.uri || string(p.Arguments) != c.arguments || string(p.RequestState) != c.rawState || p.Plain() != c.plain {
			t.Errorf("%s: name %s uri %s arguments %s requestState %s plain %v", c.params, p.Name, p.URI, p.Arguments, p.RequestState, p.Plain())
		}
		if err := p.Unique(c.unique); err != nil && c.twice != "name" {
			t.Errorf("%s: %q stands once, but: %v", c.params, c.unique, err)
		}
		if c.twice != "" && p.Unique("uri", c.twice) == nil {
			t.Errorf("%s: %q stands twice, or there is no object, and no error says so", c.params, c.twice)
		}
	}
	twice := readParams(json.RawMessage(`{"uri":"a","uri":"b"}`))
	if err := twice.Unique("uri"); !errors.Is(err, rawjson.ErrDuplicate) {
		t.Errorf("uri twice: %v", err)
	}
}

// The members belong to the params of the request at hand: a handler may replace those of a copy.
func TestFieldsOfACopy(t *testing.T) {
	r := &Request{Params: json.RawMessage(`{"name":"a","_meta":{"` + MetaLogLevel + `":"info"}}`)}
	first := r.Fields()
	if meta, err := first.Meta(); err != nil || meta.LogLevel != "info" {
		t.Fatal(meta, err)
	}
	if allocs := testing.AllocsPerRun(10, func() { _, _ = r.Fields().Meta() }); allocs != 0 {
		t.Errorf("%v allocations", allocs)
	}
	q := *r
	q.Params = json.RawMessage(`{"name":"b"}`)
	if name := string(q.Fields().Name); name != `"b"` {
		t.Errorf("the copy's name is %s", name)
	}
	if meta, _ := q.Fields().Meta(); meta.LogLevel != "" {
		t.Errorf("the copy has the meta of other params: %+v", meta)
	}
	if name := string(r.Fields().Name); name != `"a"` {
		t.Errorf("the request's name is %s", name)
	}
}
