package jsonrpc

import (
	"strings"
	"testing"
)

func TestSalvage(t *testing.T) {
	deep := strings.Repeat("[", 100_000)
	for _, c := range []struct {
		in     string
		id     ID
		answer bool
	}{
		{`{"jsonrpc":"2.0","id":5,"result":{"content":[{"type":"te`, "5", true},
		{`{"jsonrpc":"2.0","id":"a\"b","result":{`, `"a\"b"`, true},
		{`{"jsonrpc":"2.0","id":5,"result":` + deep, "5", true},
		{`{"jsonrpc":"2.0","result":` + deep + strings.Repeat("]", 100_000) + `,"id":5}`, "5", true},
		{` {"result":{"a":"}\\"},"jsonrpc":"2.0" , "id" : 7 `, "", true}, // more digits may have followed
		{`{"result":{"a":"}\\"},"jsonrpc":"2.0" , "id" : 7 }x`, "7", true},
		{`{"result":{"content":[{"type":"text","text":"ab`, "", true},
		{`{"id":5,"result":{}}`, "5", true},
		{`{"id":12`, "", false},
		{`{"jsonrpc":"2.0","id":12`, "", false},
		{`{"jsonrpc":"2.0","id":"12`, "", false},
		{`{"jsonrpc":"2.0","id":`, "", false},
		{`{"jsonrpc":"2.0","id":12,"res`, "12", true},
		{`{"id":3,"error":"disk full","level":"warn"}`, "3", false},
		{`{"id":null,"error":{}`, "", true},
		{`{"id":{"a":1},"error":{}`, "", true},
		{`{"id":5,"result":{},"id":6}`, "", true},
		{`{"id":5,"id":5,"result":{}`, "5", true},
		{`{"params":{"id":9},"jsonrpc":"2.0","error":{"code"`, "", true},
		{`{"jsonrpc":"2.0","id":5,"method":"roots/list","par`, "", false},
		{`{"jsonrpc":"2.0","method":"notifications/message","params":{"id":5`, "", false},
		{`{"level":"info","message":"id`, "", false},
		{`{"level":"info","id":`, "", false},
		{`{"i`, "", false},
		{`{"id"`, "", false},
		{`{`, "", false}, {``, "", false}, {`[{"id":5`, "", false}, {`Listening on port 80`, "", false}, {`"id":5`, "", false}, {`{"\`, "", false}, {`{"a":"\`, "", false},
	} {
		id, answer := Salvage([]byte(c.in))
		if id != c.id || answer != c.answer {
			t.Errorf("%.60s: %q, %v, want %q, %v", c.in, id, answer, c.id, c.answer)
		}
	}
}

// Of a message that can be read, Salvage finds the same id as Parse, and of any
// start of it that id or none.
func FuzzSalvage(f *testing.F) {
	for _, seed := range []string{
		`{"jsonrpc":"2.0","id":1.5,"result":{"a":[1,"}"]}}`, `{"result":{},"id":"x","jsonrpc":"2.0"}`, `{"jsonrpc":"2.0","id":null,"error":{}}`,
		`{"jsonrpc":"2.0","id":3,"method":"x"}`, "{\"jsonrpc\":\"2.0\",\"id\":4,\"result\":\"\\\"\xff\"}",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 4096 {
			return
		}
		m, err := Parse(data)
		id, answer := Salvage(data)
		if err == nil && m.Method == "" {
			if !answer || id != m.ID {
				t.Errorf("%q: Salvage has %q, %v, Parse %q", data, id, answer, m.ID)
			}
			for n := range data {
				if part, _ := Salvage(data[:n]); part != "" && part != m.ID {
					t.Errorf("%q: of its first %d bytes %q, Parse has %q", data, n, part, m.ID)
				}
			}
		}
	})
}
