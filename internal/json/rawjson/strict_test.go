package rawjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
)

func TestSole(t *testing.T) {
	for _, c := range []struct {
		obj, want string
		err       error
	}{
		{``, ``, nil},
		{`{}`, ``, nil},
		{`{"other":1}`, ``, nil},
		{`{"task":1,"tasks":2}`, `1`, nil},
		{`{"t\u0061sk" : [1] }`, `[1]`, nil},
		{`{"task":1,"task":2}`, ``, ErrDuplicate},
		{`{"task":1,"t\u0061sk":2}`, ``, ErrDuplicate},
		{`{"task":1,"Task":2}`, ``, errCase},
		{`{"TASK":2}`, ``, errCase},
		{`{"taſk":2}`, ``, errCase},      // a long s
		{`{"tas\u212a":2}`, ``, errCase}, // the sign of kelvin
		{`[]`, ``, ErrType},
		{`{"task":1`, ``, ErrSyntax},
	} {
		got, err := Sole([]byte(c.obj), "task")
		if string(got) != c.want || !errors.Is(err, c.err) || c.err == nil && err != nil {
			t.Errorf("%s: %s, %v", c.obj, got, err)
		}
	}
}

func TestCheckCase(t *testing.T) {
	keys := []string{"name", "arguments"}
	for obj, bad := range map[string]bool{
		`{}`: false, `{"name":1,"arguments":{"Name":2}}`: false, `{"names":1}`: false, `{"name":1,"ARGUMENTS":2}`: true, `{"Name":1}`: true, `{"n\u0041me":1}`: true,
	} {
		if err := CheckCase([]byte(obj), keys...); errors.Is(err, errCase) != bad || !bad && err != nil {
			t.Errorf("%s: %v", obj, err)
		}
	}
}

func TestAppendRewritten(t *testing.T) {
	many := make([]string, 100)
	for i := range many {
		many[i] = fmt.Sprintf(`"k%d":%d`, i, i)
	}
	object := "{" + strings.Join(many, ",") + "}"
	for _, c := range []struct {
		in, want string
		err      error
	}{
		{` { "b" : [ 1 , 2.50 , -0 , 12345678901234567890 , 1e999 ] , "\u0061" : "\u00e9\/" , "" : { } , "n" : null , "t":true } `,
			`{"b":[1,2.50,-0,12345678901234567890,1e999],"a":"é/","":{},"n":null,"t":true}`, nil},
		{`[]`, `[]`, nil}, {`""`, `""`, nil}, {` 7 `, `7`, nil}, {`"\ud83d\ude00"`, `"😀"`, nil},
		{`"\ud800x"`, "\"\uFFFDx\"", nil},
		{object, object, nil},
		{strings.Replace(object, "k99", "k3", 1), ``, ErrDuplicate},
		{strings.Replace(object, "k5", "k3", 1), ``, ErrDuplicate},
		{`{"":1,"":2}`, ``, ErrDuplicate},
		{`{"a":[{"x":1,"\u0078":2}]}`, ``, ErrDuplicate},
		{`{"\ud800":1,"\ud801":2}`, ``, ErrDuplicate}, // readers that replace them see one key
		{`{"a":1,}`, ``, ErrSyntax}, {`[1,]`, ``, ErrSyntax}, {`{"a" 1}`, ``, ErrSyntax}, {`[1 2]`, ``, ErrSyntax}, {`{} x`, ``, ErrSyntax}, {``, ``, ErrSyntax}, {`{"a":1`, ``, ErrSyntax}, {`[1`, ``, ErrSyntax}, {`{"a"`, ``, ErrSyntax},
		{strings.Repeat("[", MaxDepth) + strings.Repeat("]", MaxDepth), strings.Repeat("[", MaxDepth) + strings.Repeat("]", MaxDepth), nil},
		{strings.Repeat("[", MaxDepth+1) + strings.Repeat("]", MaxDepth+1), ``, ErrDepth},
	} {
		got, err := AppendRewritten(nil, []byte(c.in))
		if c.err != nil {
			if !errors.Is(err, c.err) {
				t.Errorf("%.60s: %v, want %v", c.in, err, c.err)
			}
			continue
		}
		if err != nil || string(got) != c.want {
			t.Errorf("%.60s: %.80s, %v", c.in, got, err)
		}
	}
}

// What is rewritten means the same to encoding/json, and is refused exactly where
// a value is invalid or has a key twice.
func FuzzAppendRewritten(f *testing.F) {
	for _, s := range []string{`{"a":[1,2,{"b":"\ud83d\ude00"}],"c":-1.5e-3}`, ` [ ] `, `{"a":1,"\u0061":2}`, "\"\xff\"", `{"":{"":[]}}`, `"\u2028"`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		out, err := AppendRewritten([]byte("x"), data)
		if err != nil {
			if Valid(data) == nil && !errors.Is(err, ErrDuplicate) {
				t.Fatalf("%q: %v", data, err)
			}
			return
		}
		var before, after any
		a, b := json.NewDecoder(bytes.NewReader(data)), json.NewDecoder(bytes.NewReader(out[1:]))
		a.UseNumber()
		b.UseNumber()
		if a.Decode(&before) != nil || b.Decode(&after) != nil || !reflect.DeepEqual(before, after) {
			t.Fatalf("%q became %q", data, out)
		}
		if again, err := AppendRewritten(nil, out[1:]); err != nil || !bytes.Equal(again, out[1:]) {
			t.Fatalf("%q is not the last word: %q %v", out, again, err)
		}
	})
}

func BenchmarkAppendRewritten(b *testing.B) {
	data := []byte(`{"path":"/tmp/x","content":"` + strings.Repeat(`some words and \"more\".\n`, 4000) + `","n":[1,2,3]}`)
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	var out []byte
	for b.Loop() {
		var err error
		if out, err = AppendRewritten(out[:0], data); err != nil {
			b.Fatal(err)
		}
	}
}
