package rawjson

import (
	"bytes"
	"errors"
	"testing"
)

// TestEditMany: Edit makes what Set and Delete make one after the other.
func TestEditMany(t *testing.T) {
	for _, obj := range []string{`{}`, ` { } `, `{"a":1}`, `{"b":2,"a":1,"c":3}`, `{"c":3,"a":1}`, ` {"a":1,"b":2,"d":[4]}`, `{"c":3}`, `{"c":3,"b":2}`, `{"d":{"a":1}}`} {
		want, err := Set([]byte(obj), "a", []byte(`"new"`))
		if err == nil {
			want, err = Delete(want, "c")
		}
		if err == nil {
			want, err = Set(want, "b", []byte(`{"x":1}`))
		}
		if err != nil {
			t.Fatal(err)
		}
		parts, err := Edit([]byte(obj), Change{"a", Parts{[]byte(`"n`), []byte(`ew"`)}}, Change{"c", nil}, Change{"b", Parts{[]byte(`{"x":1}`)}})
		var got bytes.Buffer
		if err != nil || parts.WriteParts(&got) != nil || got.String() != string(want) || parts.Len() != got.Len() {
			t.Errorf("%s: %s, %v, want %s", obj, got.String(), err, want)
		}
	}
	for obj, want := range map[string]error{`{"a":1,"a":2}`: ErrDuplicate, `[]`: ErrType} {
		if _, err := Edit([]byte(obj), Change{"a", nil}); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", obj, err, want)
		}
	}
}
