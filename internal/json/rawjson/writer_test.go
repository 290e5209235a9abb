package rawjson

import (
	"encoding/json"
	"errors"
	"testing"
)

func TestWriter(t *testing.T) {
	w := NewWriter([]byte("event: "))
	w.Object()
	w.Key(`a"b`).String("x\n{")
	w.Key("empty").Object().EndObject()
	w.Key("list").Array().Int(-7).Bool(true).Null().Raw([]byte(`{"k":12345678901234567890}`)).Array().EndArray().Float(0.1).EndArray()
	w.Key("text").Text([]byte("y["))
	w.Key("absent").Raw(nil)
	w.Key("names").Strings([]string{"p:", "q"})
	w.Key("none").Strings(nil)
	w.EndObject()
	const want = `event: {"a\"b":"x\n{","empty":{},"list":[-7,true,null,{"k":12345678901234567890},[],0.1],"text":"y[","absent":null,"names":["p:","q"],"none":[]}`
	if got := string(w.Bytes()); got != want {
		t.Errorf("wrote %s\n want %s", got, want)
	}
	if !json.Valid(w.Bytes()[len("event: "):]) {
		t.Error("it is no JSON")
	}
}

func TestObject(t *testing.T) {
	if got := string(Object(`a"b`, []byte(`[1]`))); got != `{"a\"b":[1]}` {
		t.Errorf("wrote %s", got)
	}
	if got := testing.AllocsPerRun(100, func() { Object("uri", []byte(`"file:///a"`)) }); got > 1 {
		t.Errorf("%v allocations", got)
	}
}

func TestWriterAllocates(t *testing.T) {
	buf := make([]byte, 0, 1024)
	got := testing.AllocsPerRun(100, func() {
		w := NewWriter(buf)
		w.Object().Key("name").String("é\n").Key("n").Int(5).Key("raw").Raw([]byte(`[1]`)).EndObject()
		if len(w.Bytes()) == 0 {
			t.Error("it wrote nothing")
		}
	})
	if got != 0 {
		t.Errorf("%v allocations", got)
	}
}

func TestScan(t *testing.T) {
	var p struct{ name, arguments, meta []byte }
	fields := func() []Field {
		return []Field{Key("name", &p.name), Key("arguments", &p.arguments), Key("_meta", &p.meta)}
	}
	p.meta = []byte("old")
	if err := Scan([]byte(` {"x":1,"arguments":{"name":"inner"},"n\u0061me":"a"} `), fields()...); err != nil {
		t.Fatal(err)
	}
	if string(p.name) != `"a"` || string(p.arguments) != `{"name":"inner"}` || p.meta != nil {
		t.Errorf("%s, %s, %s", p.name, p.arguments, p.meta)
	}
	if err := Scan(nil, fields()...); err != nil || p.name != nil {
		t.Errorf("%v, %s", err, p.name)
	}
	if err := Scan([]byte(`{"name":1,"name":1}`), fields()...); !errors.Is(err, ErrDuplicate) {
		t.Errorf("a member that stands twice: %v", err)
	}
	if err := Scan([]byte(`{"name":}`), fields()...); !errors.Is(err, ErrSyntax) {
		t.Errorf("what is no JSON: %v", err)
	}
	obj := []byte(`{"name":"a","arguments":{},"_meta":{}}`)
	if got := testing.AllocsPerRun(100, func() {
		var name, meta []byte
		if Scan(obj, Key("name", &name), Key("_meta", &meta)) != nil || len(meta) == 0 {
			t.Error("it found nothing")
		}
	}); got != 0 {
		t.Errorf("%v allocations", got)
	}
}
