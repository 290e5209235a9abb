package mcptask

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"
)

func TestAgentMade(t *testing.T) {
	for result, want := range map[string]string{
		`{"taskId":"a"}`: "a",
		`{"content":[],"taskId":"a","_meta":{"taskId":"b"}}`: "a",
		`{"content":[],"_meta":{"taskId":"b"}}`:              "b",
		`{"content":[],"taskId":7}`:                          "",
		`{"content":[{"type":"text","text":"taskId"}]}`:      "",
		`{"content":[],"structuredContent":{"taskId":"a"}}`:  "",
		`{"content":[],"isError":true,"taskId":"a"}`:         "",
		`{"taskId":"` + strings.Repeat("x", MaxID+1) + `"}`:  "",
		`{"taskId":`: "",
		`[]`:         "",
	} {
		if id, ok := AgentMade(json.RawMessage(result)); ok != (want != "") || ok && id != want {
			t.Errorf("%s: %q, %t", result, id, ok)
		}
	}
}

func TestReadAgent(t *testing.T) {
	for _, c := range []struct{ task, status, message, result, failure string }{
		{`{"id":"a","status":"pending","result":null}`, "working", Queued, "", ""},
		{`{"id":"a","status":"running","logTail":"one\ntwo \n\n"}`, "working", "two", "", ""},
		{`{"id":"a","status":"odd"}`, "working", "", "", ""},
		{`{"id":"a","status":"completed","result":{"content":[],"x":1}}`, "completed", "", `{"content":[],"x":1}`, ""},
		{`{"id":"a","status":"completed","result":{"n":1}}`, "completed", "", `{"content":[{"type":"text","text":"{\"n\":1}"}],"structuredContent":{"n":1}}`, ""},
		{`{"id":"a","status":"completed","result":"done"}`, "completed", "", `{"content":[{"type":"text","text":"done"}]}`, ""},
		{`{"id":"a","status":"completed","result":[1,2]}`, "completed", "", `{"content":[{"type":"text","text":"[1,2]"}]}`, ""},
		{`{"id":"a","status":"completed"}`, "completed", "", `{"content":[]}`, ""},
		{`{"id":"a","status":"failed","error":"no disk"}`, "failed", "", "", `{"code":-32603,"message":"no disk"}`},
		{`{"id":"a","status":"failed","error":{"message":"no disk"}}`, "failed", "", "", `{"code":-32603,"message":"no disk"}`},
		{`{"id":"a","status":"failed"}`, "failed", "", "", `{"code":-32603,"message":"the task failed; its server gives no reason"}`},
		{`{"id":"a","status":"failed","error":"x","result":{"content":[]}}`, "failed", "", `{"content":[],"isError":true}`, ""},
		{`{"id":"a","status":"cancelled"}`, "cancelled", "", "", ""},
	} {
		got, ok := ReadAgent(json.RawMessage(`{"task":` + c.task + `}`))
		if !ok || got.ID != "a" || got.Status != c.status || got.Message != c.message || string(got.Result) != c.result || string(got.Error) != c.failure || !got.Modern || !got.Agent {
			t.Errorf("%s: %+v, result %s, error %s, %t", c.task, got, got.Result, got.Error, ok)
		}
	}
	for _, bad := range []string{``, `{}`, `{"task":7}`, `{"task":{}}`, `{"task":{"status":7}}`, `{"task":{"status":"running"}`, `[{"task":{}}]`, `{"error":{"code":1}}`} {
		if s, ok := ReadAgent(json.RawMessage(bad)); ok {
			t.Errorf("%s is read as %+v", bad, s)
		}
	}
}

func TestAgentTaskURL(t *testing.T) {
	endpoint, err := url.Parse("http://127.0.0.1:7000/a/mcp?key=1")
	if err != nil {
		t.Fatal(err)
	}
	if got := AgentTaskURL(endpoint, "x&y/z").String(); got != "http://127.0.0.1:7000/a/getTaskStatus?taskId=x%26y%2Fz" {
		t.Error(got)
	}
}
