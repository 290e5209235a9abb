package rawjson_test

import (
	"bytes"
	"testing"

	"github.com/weir-mcp/weir/internal/json/rawjson"
)

func TestFinite(t *testing.T) {
	for _, c := range []struct {
		in, want string
		replaced int
	}{
		{`NaN`, `null`, 1},
		{` [NaN,Infinity, -Infinity ]`, ` [null,null, null ]`, 3},
		{`{"a":NaN,"b":"NaN","c":{"d":[-Infinity]}}`, `{"a":null,"b":"NaN","c":{"d":[null]}}`, 2},
		{`{"NaN":1,"\"NaN":NaN}`, `{"NaN":1,"\"NaN":null}`, 1},
		{`[NaNa,aNaN,-NaN,1NaN,Infinity2,--Infinity,_Infinity]`, `[NaNa,aNaN,-NaN,1NaN,Infinity2,--Infinity,_Infinity]`, 0},
		{`{"a":"Infinity"}`, `{"a":"Infinity"}`, 0},
		{`[NaN,"not closed, NaN`, `[null,"not closed, NaN`, 1},
		{``, ``, 0},
	} {
		out, replaced := rawjson.Finite([]byte(c.in))
		if string(out) != c.want || replaced != c.replaced {
			t.Errorf("Finite(%s) = %s, %d, want %s, %d", c.in, out, replaced, c.want, c.replaced)
		}
		var written bytes.Buffer
		if err := rawjson.WriteFinite(&written, []byte(c.in)); err != nil || written.String() != c.want {
			t.Errorf("WriteFinite(%s) writes %s, %v", c.in, &written, err)
		}
		if n, size := rawjson.CountInfinite([]byte(c.in)); n != replaced || size != len(out) {
			t.Errorf("CountInfinite(%s) = %d, %d, and there are %d and %d", c.in, n, size, replaced, len(out))
		}
	}
	// What needs no change is not copied.
	data := []byte(`{"a":"NaN"}`)
	if out, _ := rawjson.Finite(data); &out[0] != &data[0] {
		t.Error("a copy of data without such numbers")
	}
}

// Valid JSON comes back as it is, and nothing that is replaced stays.
func FuzzFinite(f *testing.F) {
	for _, s := range []string{`[NaN]`, `{"a":"NaN\"","b":-Infinity}`, `NaNNaN`, `"`, `[1,NaN`, `"\u12`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		before := bytes.Clone(data)
		out, replaced := rawjson.Finite(data)
		if !bytes.Equal(before, data) {
			t.Fatal("the input was changed")
		}
		if rawjson.Valid(data) == nil && (replaced != 0 || !bytes.Equal(out, data)) {
			t.Fatalf("valid JSON %q became %q", data, out)
		}
		if again, n := rawjson.Finite(out); n != 0 || !bytes.Equal(again, out) {
			t.Fatalf("%q became %q and then %q", data, out, again)
		}
	})
}
