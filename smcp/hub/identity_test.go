package hub_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/smcp/hub"
	"github.com/weir-mcp/weir/socketio"
)

// list_room tells peers of 0.2 and later which version each member has said.
func TestListRoomVersions(t *testing.T) {
	_, url := start(t, hub.Options{})
	agent := join(t, url, peerOptions{version: "0.4.2"}, "agent", "o", "o")
	plain := join(t, url, peerOptions{}, "computer", "plain", "o")
	join(t, url, peerOptions{version: "0.3.0-rc.1"}, "computer", "pre", "o")
	join(t, url, peerOptions{version: "0.4.0-" + strings.Repeat("x", 4096)}, "computer", "verbose", "o")
	join(t, url, peerOptions{version: "0.1.2"}, "computer", "old", "o")
	versions := func(p *peer) map[string]string {
		t.Helper()
		room := json.RawMessage(p.call("server:list_room", `{"agent":"o","req_id":"1","office_id":"o"}`))
		out := map[string]string{}
		err := rawjson.EachElement(rawjson.Get(room, "sessions"), func(s []byte) bool {
			out[rawjson.Text(rawjson.Get(s, "name"))] = string(rawjson.Get(s, "a2c_version"))
			return true
		})
		if err != nil {
			t.Fatalf("%s: %v", room, err)
		}
		return out
	}
	want := map[string]string{"o": `"0.4.2"`, "plain": "", "pre": `"0.3.0-rc.1"`, "verbose": `"0.4.0"`, "old": `"0.1.2"`}
	got := versions(agent)
	for name, version := range want {
		if got[name] != version {
			t.Errorf("%s: %s, want %s", name, got[name], version)
		}
	}
	for name, version := range versions(plain) {
		if version != "" {
			t.Errorf("a peer without a version is told that %s has %s", name, version)
		}
	}
}

// The agent that a Computer is told is the session's, whatever the payload says.
func TestAgentOfSession(t *testing.T) {
	_, url := start(t, hub.Options{})
	got := make(chan string, 1)
	echo := func(e *socketio.Event) {
		got <- string(e.Arg(0))
		_ = e.Ack(json.RawMessage(`{}`))
	}
	answer := map[string]socketio.Handler{"client:tool_call": echo, "client:get_tools": echo, "client:get_skills": echo, "client:get_mcp_config": echo}
	join(t, url, peerOptions{answer: answer}, "computer", "plain", "first")
	join(t, url, peerOptions{answer: answer, version: "0.4.0"}, "computer", "modern", "first")
	join(t, url, peerOptions{answer: answer}, "computer", "plain", "second")
	join(t, url, peerOptions{answer: answer, version: "0.4.0"}, "computer", "modern", "second")
	first := join(t, url, peerOptions{}, "agent", "first", "first")
	second := join(t, url, peerOptions{version: "0.4.0"}, "agent", "second", "second")
	call := `"req_id":"1","tool_name":"t","params":{}`
	for _, test := range []struct{ who, event, fields string }{
		{"nobody", "client:tool_call", call},
		{"first", "client:tool_call", `"agent":"first",` + call},
		{"another", "client:tool_call", `"agent":"second",` + call},
		{"another, in the draft's words", "client:tool_call", `"robot_id":"second",` + call},
		{"two", "client:tool_call", `"agent":"second","robot_id":"third",` + call},
		{"itself and another", "client:tool_call", `"agent":"first","robot_id":"second",` + call},
		{"no text", "client:tool_call", `"agent":{"x":1},"robot_id":7,` + call},
		{"escaped", "client:tool_call", `"agent":"f\u0069rst",` + call},
		{"another, elsewhere", "client:get_tools", `"agent":"second","req_id":"1"`},
		{"another, elsewhere", "client:get_skills", `"robot_id":"second","req_id":"1"`},
	} {
		for _, agent := range []struct {
			name string
			peer *peer
		}{{"first", first}, {"second", second}} {
			for computer, robot := range map[string]string{"plain": agent.name, "modern": ""} {
				if ack := agent.peer.call(test.event, `{"computer":"`+computer+`",`+test.fields+`}`); ack != `{}` {
					t.Fatalf("%s says %s, %s of %s: %s", agent.name, test.who, test.event, computer, ack)
				}
				seen := json.RawMessage(<-got)
				if a, r := rawjson.Text(rawjson.Get(seen, "agent")), rawjson.Text(rawjson.Get(seen, "robot_id")); a != agent.name || r != robot || strings.Count(string(seen), `"agent"`) != 1 {
					t.Errorf("%s says %s, %s: %s got %s", agent.name, test.who, test.event, computer, seen)
				}
			}
		}
	}
}

// Where the first draft has a rule for who somebody is, its peers are held to it.
func TestDraftRules(t *testing.T) {
	_, url := start(t, hub.Options{})
	draft := join(t, url, peerOptions{}, "computer", "c", "room")
	for _, test := range []struct{ in, want string }{
		{`{"role":"agent","office_id":"room-x","robot_id":"bot-y"}`, `false "Agent sid should equal office_id"`},
		{`{"role":"agent","name":"bot-y","office_id":"room-x","robot_id":"bot-y"}`, `false "Agent sid should equal office_id"`},
		{`{"role":"agent","name":"room","office_id":"room","robot_id":"room"}`, `true null`},
	} {
		p, err := newPeer(t, url, peerOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if got := p.call("server:join_office", test.in); got != test.want {
			t.Errorf("%s: %s, want %s", test.in, got, test.want)
		}
	}
	draft.hears(`notify:enter_office {"office_id":"room","agent":"room","robot_id":"room"}`)
	// Computers have names of their own, and 0.1 has no such rule.
	for _, test := range []struct{ version, in string }{
		{"", `{"role":"computer","office_id":"room-x","robot_id":"bot-y"}`},
		{"", `{"role":"agent","office_id":"room-x","name":"bot-y"}`},
		{"0.4.0", `{"role":"agent","office_id":"room-z","name":"bot-y","robot_id":"bot-y"}`},
	} {
		p, err := newPeer(t, url, peerOptions{version: test.version})
		if err != nil {
			t.Fatal(err)
		}
		if got := p.call("server:join_office", test.in); got != `true null` {
			t.Errorf("%q %s: %s", test.version, test.in, got)
		}
	}
}

// The params of a tool_call are an object in every dialect.
func TestParams(t *testing.T) {
	_, url := start(t, hub.Options{})
	join(t, url, peerOptions{answer: map[string]socketio.Handler{"client:tool_call": reply(`{"content":[]}`)}}, "computer", "c", "plain")
	join(t, url, peerOptions{version: "0.4.0", answer: map[string]socketio.Handler{"client:tool_call": reply(`{"content":[]}`)}}, "computer", "c", "modern")
	for office, version := range map[string]string{"plain": "", "modern": "0.4.0"} {
		agent := join(t, url, peerOptions{version: version}, "agent", office, office)
		for _, params := range []string{`,"params":[1]`, `,"params":null`, `,"params":"{}"`, `,"params":1`, ``} {
			got := json.RawMessage(agent.call("client:tool_call", `{"req_id":"1","computer":"c","tool_name":"t"`+params+`}`))
			if string(rawjson.Get(got, "code")) != "400" || rawjson.Text(rawjson.GetPath(got, "details", "params")) != "an object" {
				t.Errorf("%s, %q: %s", office, params, got)
			}
			if nested := rawjson.Get(got, "error"); (nested != nil) != (version == "") {
				t.Errorf("%s, %q: %s", office, params, got)
			}
		}
		if got := agent.call("client:tool_call", `{"req_id":"1","computer":"c","tool_name":"t","params":{}}`); got != `{"content":[]}` {
			t.Errorf("%s, an object: %s", office, got)
		}
	}
}
