package mcptask

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"
)

func TestMade(t *testing.T) {
	for _, c := range []struct {
		name, result string
		want         State
		ok           bool
	}{
		{"2025-11-25", `{"task":{"taskId":"a","status":"working","statusMessage":"step 1","pollInterval":1500,"ttl":60000}}`,
			State{ID: "a", Status: "working", Message: "step 1", Poll: 1500 * time.Millisecond}, true},
		{"2026-07-28", `{"resultType":"task","taskId":"b","status":"input_required","pollIntervalMs":250.5,"inputRequests":{"q":{}}}`,
			State{ID: "b", Status: "input_required", Poll: 250500 * time.Microsecond, Questions: json.RawMessage(`{"q":{}}`), Modern: true}, true},
		{"pollIntervalMs goes first", `{"resultType":"task","taskId":"b","status":"working","pollInterval":9,"pollIntervalMs":7}`,
			State{ID: "b", Status: "working", Poll: 7 * time.Millisecond, Modern: true}, true},
		{"an interval that is too long", `{"task":{"taskId":"a","status":"working","pollInterval":1e300}}`,
			State{ID: "a", Status: "working", Poll: time.Hour}, true},
		{"an interval that is no number", `{"task":{"taskId":"a","status":"working","pollInterval":"soon"}}`, State{ID: "a", Status: "working"}, true},
		{"an interval below zero", `{"task":{"taskId":"a","status":"working","pollInterval":-5}}`, State{ID: "a", Status: "working"}, true},
		{"an ordinary result", `{"content":[{"type":"text","text":"taskId"}]}`, State{}, false},
		{"an agent server's id in an ordinary result", `{"taskId":"a","content":[]}`, State{}, false},
		{"a text named task", `{"task":"later"}`, State{}, false},
		{"a task without an id", `{"task":{"status":"working"}}`, State{Status: "working"}, false},
		{"an id that is a number", `{"resultType":"task","taskId":7,"status":"working"}`, State{Status: "working", Modern: true}, false},
		{"an id that is too long", `{"task":{"taskId":"` + strings.Repeat("x", MaxID+1) + `","status":"working"}}`, State{ID: strings.Repeat("x", MaxID+1), Status: "working"}, false},
		{"no JSON", `{"task":`, State{}, false},
		{"no object", `[]`, State{}, false},
	} {
		got, ok := Made(json.RawMessage(c.result))
		if ok != c.ok || ok && (got.ID != c.want.ID || got.Status != c.want.Status || got.Message != c.want.Message || got.Poll != c.want.Poll ||
			got.Modern != c.want.Modern || string(got.Questions) != string(c.want.Questions)) {
			t.Errorf("%s: %+v, %t", c.name, got, ok)
		}
	}
}

func TestRead(t *testing.T) {
	done, ok := Read(json.RawMessage(`{"taskId":"a","status":"completed","result":{"content":[]}}`))
	if !ok || !done.Final() || string(done.Result) != `{"content":[]}` {
		t.Errorf("%+v, %t", done, ok)
	}
	failed, ok := Read(json.RawMessage(`{"taskId":"a","status":"failed","error":{"code":-1}}`))
	if !ok || !failed.Final() || string(failed.Error) != `{"code":-1}` {
		t.Errorf("%+v, %t", failed, ok)
	}
	for status, final := range map[string]bool{"working": false, "input_required": false, "cancelled": true, "submitted": false} {
		if s, ok := Read(json.RawMessage(`{"status":"` + status + `"}`)); !ok || s.Final() != final {
			t.Errorf("%s: %+v, %t", status, s, ok)
		}
	}
	for _, bad := range []string{``, `null`, `7`, `{}`, `{"status":7}`, `{"status":"working"`} {
		if s, ok := Read(json.RawMessage(bad)); ok {
			t.Errorf("%s is read as %+v", bad, s)
		}
	}
}

func TestAugment(t *testing.T) {
	const can = `{"tasks":{"requests":{"tools":{"call":{}}}}}`
	for _, c := range []struct {
		offer              Offer
		capabilities, want string
	}{
		{Offer{Tool: "required", TTL: time.Minute}, `{}`, `{"name":"x","task":{"ttl":60000}}`},
		{Offer{Tool: "required"}, can, `{"name":"x","task":{}}`},
		{Offer{Tool: "optional", TTL: time.Second}, can, `{"name":"x","task":{"ttl":1000}}`},
		{Offer{Tool: "optional"}, `{"tasks":{"list":{}}}`, `{"name":"x"}`},
		{Offer{Tool: "forbidden"}, can, `{"name":"x"}`},
		{Offer{}, can, `{"name":"x"}`},
	} {
		if got, err := c.offer.Augment(json.RawMessage(`{"name":"x"}`), json.RawMessage(c.capabilities)); err != nil || string(got) != c.want {
			t.Errorf("%+v of %s: %s, %v", c.offer, c.capabilities, got, err)
		}
	}
	if got, err := (Offer{Tool: "required"}).Augment(json.RawMessage(`[]`), nil); err == nil {
		t.Errorf("params that are no object become %s", got)
	}
}

func TestDeclare(t *testing.T) {
	const whole = `{"extensions":{"io.modelcontextprotocol/tasks":{}}}`
	for before, want := range map[string]string{
		`{}`:                      whole,
		whole:                     whole,
		`{"extensions":7}`:        whole,
		`{"extensions":{"x":{}}}`: `{"extensions":{"x":{},"io.modelcontextprotocol/tasks":{}}}`,
		`{"roots":{}}`:            `{"roots":{},` + whole[1:],
		`{"extensions":{"io.modelcontextprotocol/tasks":null}}`: whole,
	} {
		got, err := Declare(json.RawMessage(before))
		if err != nil || string(got) != want || !Declares(got) {
			t.Errorf("%s becomes %s, %v", before, got, err)
		}
	}
	if got, err := Declare(json.RawMessage(`7`)); err == nil {
		t.Errorf("a number becomes %s", got)
	}
	for _, none := range []string{``, `{}`, `{"io.modelcontextprotocol/tasks":{}}`, `{"extensions":{"io.modelcontextprotocol/tasks":true}}`} {
		if Declares(json.RawMessage(none)) {
			t.Errorf("%s declares tasks", none)
		}
	}
}

func TestOfferOf(t *testing.T) {
	if _, ok := OfferOf(context.Background()); ok {
		t.Error("an offer out of nothing")
	}
	want := Offer{Tool: "optional", TTL: time.Second}
	if got, ok := OfferOf(WithOffer(context.Background(), want)); !ok || got != want {
		t.Errorf("%+v, %t", got, ok)
	}
	if got := string(Params(`a"b`)); got != `{"taskId":"a\"b"}` {
		t.Errorf("params %s", got)
	}
}
