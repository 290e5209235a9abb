package rawjson

import (
	"bytes"
	"errors"
	"strings"
	"testing"
)

// checkedInputs are values with every kind of end, some with long strings and many escapes.
var checkedInputs = []string{
	`{}`, ` { } `, `[]`, ` [ ] `, `{"a":1}`, `{"a":1,"a":2}`, "{ \"a\" : [ 1 , {\"b\":\"]}\"} ] ,\n\"c\":null }", `[1,-2.5e3,true,false,null,"x",{},[]]`,
	`{"\u0061\"":"\\","b":"\\\"","c":"\\\\"}`, `[[[["]"]]],{"a":{"b":{"c":"}"}}}]`,
	`{"long":"` + strings.Repeat("text without ends, ", 1000) + `","after":1}`,
	`{"long":"` + strings.Repeat(`{\"a\":\"b\\\\\"},\n`, 1000) + `\\","after":[1]}`,
	`["` + strings.Repeat(`x`, 63) + `\"` + strings.Repeat(`\\`, 100) + `","` + strings.Repeat("é", 200) + `"]`,
}

// What has been checked is read as EachMember and EachElement read it.
func TestCheckedReadsTheSame(t *testing.T) {
	for _, input := range checkedInputs {
		compareChecked(t, []byte(input))
	}
}

func compareChecked(t *testing.T, data []byte) {
	t.Helper()
	var want, got []Member
	err := EachMember(data, func(m Member) bool { want = append(want, m); return true })
	again := EachCheckedMember(data, func(m Member) bool { got = append(got, m); return true })
	if (err == nil) != (again == nil) || len(want) != len(got) {
		t.Fatalf("%.200s: %d members and %v, checked %d and %v", data, len(want), err, len(got), again)
	}
	for i, m := range want {
		if string(m.Key) != string(got[i].Key) || string(m.Value) != string(got[i].Value) || m.Start != got[i].Start || m.End != got[i].End {
			t.Fatalf("%.200s: member %d is %+v, want %+v", data, i, got[i], m)
		}
	}
	var elements, others [][]byte
	err = EachElement(data, func(v []byte) bool { elements = append(elements, v); return true })
	again = EachCheckedElement(data, func(v []byte) bool { others = append(others, v); return true })
	if (err == nil) != (again == nil) || !equalAll(elements, others) {
		t.Fatalf("%.200s: %q and %v, checked %q and %v", data, elements, err, others, again)
	}
}

func equalAll(a, b [][]byte) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !bytes.Equal(a[i], b[i]) {
			return false
		}
	}
	return true
}

func TestCheckedFields(t *testing.T) {
	var out [2][]byte
	if err := CheckedFields([]byte(`{"a":"1","b":[2],"c":3}`), []string{"b", "d"}, out[:]); err != nil || string(out[0]) != "[2]" || out[1] != nil {
		t.Errorf("%q, %v", out, err)
	}
	if err := CheckedFields([]byte(`{"b":1,"b":2}`), []string{"b", "d"}, out[:]); err == nil {
		t.Error("a duplicate passed")
	}
}

// Values that are valid are read the same by both; others must not panic.
func FuzzChecked(f *testing.F) {
	for _, input := range checkedInputs {
		f.Add([]byte(input))
		f.Add([]byte(input[:len(input)*2/3]))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if Valid(data) == nil {
			compareChecked(t, data)
			return
		}
		_ = EachCheckedMember(data, func(m Member) bool { return len(m.Value) > 0 })
		_ = EachCheckedElement(data, func(v []byte) bool { return len(v) > 0 })
	})
}

// BenchmarkEachCheckedMember measures a second pass over a text of 100 KB, against the first.
func BenchmarkEachCheckedMember(b *testing.B) {
	data := []byte(`{"type":"text","text":"` + strings.Repeat("a text in which few characters are escaped\\n", 2300) + `"}`)
	for name, each := range map[string]func([]byte, func(Member) bool) error{"checked": EachCheckedMember, "unchecked": EachMember} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(data)))
			for b.Loop() {
				if err := each(data, func(Member) bool { return true }); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// A value of another type costs no allocation: readers ask for optional members without a check.
func TestWrongTypeAllocations(t *testing.T) {
	for _, raw := range []string{"", "null", `"text"`, "1"} {
		value := []byte(raw)
		var object, array error
		allocs := testing.AllocsPerRun(100, func() {
			object = EachMember(value, func(Member) bool { return true })
			array = EachElement(value, func([]byte) bool { return true })
		})
		if allocs > 0 || !errors.Is(object, ErrType) || !errors.Is(array, ErrType) {
			t.Errorf("%q: %v allocations, %v, %v", raw, allocs, object, array)
		}
	}
}
