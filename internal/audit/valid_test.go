package audit

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/json/rawjson"
)

// hostile are arguments that a caller may send, JSON or not.
var hostile = []string{
	`{"a":"\ud800"}`, `{"a":"` + "\uFFFD" + `"}`, `["x","\udfff"]`, `"\ud800"`, "{\"a\":\"\xff\"}",
	`{"\ud800":1}`, `{"a":1,"a":2}`, "{\n\"a\":\n1}", `{"a":`, "not JSON\n", `1,2`, `{"seq":7,"hash":""}`,
	strings.Repeat("[", rawjson.MaxDepth) + strings.Repeat("]", rawjson.MaxDepth),
	`{"a":"\ud800","b":"` + strings.Repeat(`\u0000`, maxArgs/8) + `"}`,
}

// TestHostileArguments: a record with any arguments, in any form, verifies.
func TestHostileArguments(t *testing.T) {
	dir := t.TempDir()
	l := openLog(t, Options{Dir: dir})
	k := testKeys(t)
	same := func(b []byte) []byte { return b }
	for _, args := range hostile {
		for _, form := range []Form{FormNone, FormHash, FormRedacted, FormFull} {
			l.Add(&Record{Kind: Begin, Args: arguments(t, k, form, []byte(args), same)})
		}
		l.Add(&Record{Kind: View, Args: []byte(args), Selector: []byte(args)})
	}
	l.Close()
	if _, err := Verify(dir, trusted(t)); err != nil {
		t.Error(err)
	}
	if n := len(kinds(t, dir)); n != 3+5*len(hostile)+2 {
		t.Errorf("%d records", n)
	}
}

// TestInvalidCharacters: arguments with an invalid character can be read in the log, and their
// digests differ where the arguments do.
func TestInvalidCharacters(t *testing.T) {
	k := testKeys(t)
	if got := string(arguments(t, k, FormFull, []byte(`{"b":1, "a":"x\ud800"}`), nil)); got != `{"b":1,"a":"x`+"\uFFFD"+`"}` {
		t.Error(got)
	}
	if bytes.Equal(arguments(t, k, FormHash, []byte(`"\ud800"`), nil), arguments(t, k, FormHash, []byte(`"\ud801"`), nil)) {
		t.Error("two arguments have one digest")
	}
}

// FuzzRecord: every record that is written can be read.
func FuzzRecord(f *testing.F) {
	for _, args := range hostile {
		f.Add([]byte(args), "x")
	}
	k := testKeys(f)
	f.Fuzz(func(t *testing.T, value []byte, text string) {
		full := arguments(t, k, FormFull, value, nil)
		for _, args := range [][]byte{value, full, arguments(t, k, FormHash, value, nil)} {
			var c chain
			r := Record{Kind: Kind(text), Principal: text, Args: args, Selector: args, Detail: text, Labels: []string{text}}
			raw := c.append(nil, r.appendJSON)
			if bytes.Count(raw, []byte("\n")) != 1 {
				t.Fatalf("%q is no line", raw)
			}
			if l, err := readLine(raw[:len(raw)-1]); err != nil || l.seq != 1 || !json.Valid(raw) {
				t.Fatalf("%q: %v", raw, err)
			}
		}
		if len(full) > 0 && rawjson.Valid(full) != nil {
			t.Fatalf("%q is no JSON", full)
		}
	})
}
