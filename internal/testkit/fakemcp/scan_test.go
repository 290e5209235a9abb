package fakemcp

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

func TestMembers(t *testing.T) {
	for _, c := range []struct {
		in   string
		want string // key=value of each member, "malformed" if it is not an object
	}{
		{`{}`, ""},
		{` { } `, ""},
		{`{"a":1}`, "a=1"},
		{`{ "a" : "x\"}" , "b" : [1,{"c":"]"}] }`, `a="x\"}" b=[1,{"c":"]"}]`},
		{`{"a":"\\","b":null}`, `a="\\" b=null`},
		{`{"a":{"b":{"c":{}}},"d":-1.5e3}`, `a={"b":{"c":{}}} d=-1.5e3`},
		{`{"a":1}x`, "malformed"},
		{`{"a":1`, "malformed"},
		{`{"a":"1}`, "malformed"},
		{`{"a"}`, "malformed"},
		{`{"a":}`, "malformed"},
		{`{"a":1,}`, "malformed"},
		{`{"a":[1}`, "malformed"},
		{`{"a":1 "b":2}`, "malformed"},
		{`[1]`, "malformed"},
		{`1`, "malformed"},
		{``, "malformed"},
	} {
		var got []string
		ok := members([]byte(c.in), func(key, value []byte) { got = append(got, fmt.Sprintf("%s=%s", key, value)) })
		text := strings.Join(got, " ")
		if !ok {
			text = "malformed"
		}
		if text != c.want {
			t.Errorf("members(%s) = %s, want %s", c.in, text, c.want)
		}
	}
}

func TestStringsRoundTrip(t *testing.T) {
	for _, text := range []string{"", "plain", "quote \" and \\", "line\nfeed\ttab\x00", "naïve 日本 🌊", "half \xff rune \xe2\x82"} {
		quoted := appendString(nil, text)
		var got, want string
		if err := json.Unmarshal(quoted, &got); err != nil {
			t.Errorf("appendString(%q) = %s: %v", text, quoted, err)
			continue
		}
		reference, err := json.Marshal(text)
		if err != nil || json.Unmarshal(reference, &want) != nil {
			t.Fatal(err)
		}
		if got != want {
			t.Errorf("appendString(%q) reads back as %q, want %q", text, got, want)
		}
		if string(unquote(quoted)) != got {
			t.Errorf("unquote(%s) = %q, want %q", quoted, unquote(quoted), got)
		}
	}
}

func FuzzMembers(f *testing.F) {
	for _, seed := range []string{`{"id":1,"method":"ping"}`, `{"a":[{"b":"}"}]}`, `{"a":"\\\""}`, `{`, `{"`, `{"a":`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		want := map[string]json.RawMessage{}
		valid := json.Unmarshal(in, &want) == nil && want != nil && strings.Contains(string(in), "{")
		got := map[string]string{}
		ok := members(in, func(key, value []byte) { got[string(unquote([]byte(`"`+string(key)+`"`)))] = string(value) })
		if !valid {
			return // it may be taken for an object, but it must not panic
		}
		if !ok {
			t.Fatalf("members refuses %q", in)
		}
		for key, value := range want {
			if strings.Contains(key, "�") {
				continue
			}
			if got[key] != string(value) {
				t.Errorf("member %q of %q is %q, want %q", key, in, got[key], value)
			}
		}
	})
}
