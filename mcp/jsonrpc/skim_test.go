package jsonrpc

import (
	"bytes"
	"strings"
	"testing"
	"testing/iotest"
)

func TestSkim(t *testing.T) {
	large := `{"text":"` + strings.Repeat(`\"id\":7,}{ `, 20_000) + `","id":3,"list":[{"id":4}]}`
	for in, want := range map[string]Head{
		`{"jsonrpc":"2.0","id":1,"result":` + large + `}`:              {ID: "1", Response: true},
		`{"result":` + large + `,"jsonrpc":"2.0", "id" : "a\"b" }`:     {ID: `"a\"b"`, Response: true},
		`{"error":{"code":1},"id":12}`:                                 {ID: "12", Response: true},
		`{"id":5,"method":"sampling/createMessage","params":{"id":6}}`: {ID: "5", Request: true},
		`{"method":"notifications/message","params":` + large + `}`:    {Request: true},
		`[{"id":1,"result":{}}]`:                                       {},
		`{"id":null,"error":{}}`:                                       {Response: true},
		`{"id":{"id":1},"result":{}}`:                                  {Response: true},
		`{"id":"` + strings.Repeat("x", 300) + `","result":{}}`:        {Response: true},
		`{"id":tru e,"method":"m"}`:                                    {Request: true},
		`{"id":[1],"method":"m"}`:                                      {Request: true},
		"{\"id\":\"\xff\",\"method\":\"m\"}":                           {Request: true},
		`{"params":{"method":1,"result":2}}`:                           {},
		`{"method":"result","params":["id"]}`:                          {Request: true},
		`{"a":"id","b":9}`:                                             {}, ``: {}, `{`: {}, `"id"`: {}, `}`: {},
	} {
		for _, r := range []func([]byte) (Head, error){
			func(b []byte) (Head, error) { return Skim(bytes.NewReader(b)) },
			func(b []byte) (Head, error) { return Skim(iotest.OneByteReader(bytes.NewReader(b))) },
		} {
			if got, err := r([]byte(in)); got != want || err != nil {
				t.Errorf("%.80s: %+v, %v, want %+v", in, got, err, want)
			}
		}
	}
	if _, err := Skim(iotest.ErrReader(iotest.ErrTimeout)); err == nil {
		t.Error("a broken reader is none")
	}
}

// TestSkimmerIsDone: pieces after the envelope do not change it, as they may begin anywhere.
func TestSkimmerIsDone(t *testing.T) {
	for in, want := range map[string]Head{
		`{"jsonrpc":"2.0","id":1,"result":{"rows":[`: {ID: "1", Response: true},
		`{"jsonrpc":"2.0","id":1,"method":"m","p":[`: {ID: "1", Request: true},
	} {
		var s Skimmer
		if !s.Feed([]byte(in + `{"a":1`)) {
			t.Fatalf("%s: more is wanted", in)
		}
		for _, piece := range []string{`},{"b":2}`, `,{"id":7,"method":"x","result":{}},{"c":3`, `},{"id":8}]},"id":9}`} {
			s.Feed([]byte(piece))
		}
		if s.Head != want {
			t.Errorf("%s: %+v, want %+v", in, s.Head, want)
		}
	}
}

// What Skim finds is what Parse finds.
func FuzzSkim(f *testing.F) {
	f.Add([]byte(`{"jsonrpc":"2.0","id":1,"result":{"a":[1,"}"]}}`))
	f.Add([]byte(`{"result":{},"id":"\\","jsonrpc":"2.0"}`))
	f.Add([]byte(`{"jsonrpc":"2.0","method":"x","params":{"id":2}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		head, err := Skim(bytes.NewReader(data))
		if err != nil {
			t.Fatal(err)
		}
		m, err := Parse(data)
		if err != nil || bytes.Contains(data, []byte(`\`)) || len(m.ID) > maxSkimID {
			return
		}
		if head.ID != "" && head.ID != m.ID || head.Request && m.Method == "" || m.Method == "" && m.ID != "" && !head.Response {
			t.Errorf("%s: %+v, parsed %+v", data, head, m)
		}
	})
}

func BenchmarkSkim(b *testing.B) {
	data := []byte(`{"result":{"text":"` + strings.Repeat("all work and no play ", 1<<19) + `"},"id":1}`)
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		if h, err := Skim(bytes.NewReader(data)); err != nil || h.ID != "1" {
			b.Fatal(h, err)
		}
	}
}
