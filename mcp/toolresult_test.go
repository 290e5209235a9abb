package mcp

import (
	"encoding/json"
	"testing"
)

func TestWithContent(t *testing.T) {
	for in, want := range map[string]string{
		`{}`:                                     `{"content":[]}`,
		` { } `:                                  ` {"content":[] } `,
		`{"isError":true}`:                       `{"isError":true,"content":[]}`,
		`{"content":null}`:                       `{"content":[]}`,
		`{"structuredContent":{"content":[1]}}`:  `{"structuredContent":{"content":[1]},"content":[]}`,
		`{"resultType":"complete"}`:              `{"resultType":"complete","content":[]}`,
		`{"toolResult":1}`:                       `{"toolResult":1,"content":[]}`,
		`{"content":[]}`:                         `{"content":[]}`,
		`{"content":[{"type":"text"}],"x":1.50}`: `{"content":[{"type":"text"}],"x":1.50}`,
		`{ "content" : [] }`:                     `{ "content" : [] }`,
		`{"content":"text"}`:                     `{"content":"text"}`,
		`{"resultType":"input_required","inputRequests":{}}`: `{"resultType":"input_required","inputRequests":{}}`,
		`{"resultType":"task","task":{}}`:                    `{"resultType":"task","task":{}}`,
		`{"task":{"taskId":"1"}}`:                            `{"task":{"taskId":"1"}}`,
		`{"a":1,"a":2,"content":null,"content":1}`:           `{"a":1,"a":2,"content":null,"content":1}`,
		`null`: `null`, `[]`: `[]`, `"x"`: `"x"`, ``: ``,
	} {
		if got := string(WithContent(json.RawMessage(in))); got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
}
