package socketio

import (
	"bytes"
	"encoding/json"
	"errors"
	"testing"

	"github.com/weir-mcp/weir/socketio/engineio"
)

func encodeEvent(nsp string, id []byte, event string, p Payload) []engineio.Frame {
	m := message{kind: packetEvent, nsp: nsp, id: id, event: event, Payload: p}
	return m.encode()
}

func encodeAck(nsp string, id []byte, p Payload) []engineio.Frame {
	m := message{kind: packetAck, nsp: nsp, id: id, Payload: p}
	return m.encode()
}

func TestParsePacket(t *testing.T) {
	tests := []struct {
		text           string
		kind           byte
		attachments    int
		nsp, id, data  string
		bad, badAsArgs bool
	}{
		{text: "0", kind: '0', nsp: "/"},
		{text: `0{"token":"x"}`, kind: '0', nsp: "/", data: `{"token":"x"}`},
		{text: "0/admin,", kind: '0', nsp: "/admin"},
		{text: "0/admin", kind: '0', nsp: "/admin"},
		{text: `0/admin,{"sid":"a"}`, kind: '0', nsp: "/admin", data: `{"sid":"a"}`},
		{text: "1", kind: '1', nsp: "/"},
		{text: `1{"why":"python says so"}`, kind: '1', nsp: "/", data: `{"why":"python says so"}`},
		{text: `2["a",1]`, kind: '2', nsp: "/", data: `["a",1]`},
		{text: `212["a"]`, kind: '2', nsp: "/", id: "12", data: `["a"]`},
		{text: `2/x,12["a"]`, kind: '2', nsp: "/x", id: "12", data: `["a"]`},
		{text: `318446744073709551615[]`, kind: '3', nsp: "/", id: "18446744073709551615", data: `[]`},
		{text: "35", kind: '3', nsp: "/", id: "5"},
		{text: `4{"message":"no"}`, kind: '4', nsp: "/", data: `{"message":"no"}`},
		{text: `4"no"`, kind: '4', nsp: "/", data: `"no"`},
		{text: `52-["a",{"_placeholder":true,"num":0}]`, kind: '2', attachments: 2, nsp: "/", data: `["a",{"_placeholder":true,"num":0}]`},
		{text: `50-["a"]`, kind: '2', nsp: "/", data: `["a"]`},
		{text: `61-/x,7[1]`, kind: '3', attachments: 1, nsp: "/x", id: "7", data: `[1]`},

		{text: "", bad: true},
		{text: "7", bad: true},
		{text: "abc", bad: true},
		{text: `0[]`, bad: true},
		{text: `0{"a"`, bad: true},
		{text: `3[]`, bad: true},
		{text: `5["a"]`, bad: true},
		{text: `5-["a"]`, bad: true},
		{text: `51["a"]`, bad: true},
		{text: `51`, bad: true},
		{text: `599999999999999999999-["a"]`, bad: true},
		{text: `2123456789012345678901["a"]`, bad: true},
		{text: "2/" + string(bytes.Repeat([]byte("x"), 600)) + `,["a"]`, bad: true},
		{text: `2{}`, kind: '2', nsp: "/", data: `{}`, badAsArgs: true},
		{text: `2abc["a"]`, kind: '2', nsp: "/", data: `abc["a"]`, badAsArgs: true},
		{text: `2["a",]`, kind: '2', nsp: "/", data: `["a",]`, badAsArgs: true},
		{text: `2["a"]x`, kind: '2', nsp: "/", data: `["a"]x`, badAsArgs: true},
		{text: `2["a"`, kind: '2', nsp: "/", data: `["a"`, badAsArgs: true},
		{text: `2["a" 1]`, kind: '2', nsp: "/", data: `["a" 1]`, badAsArgs: true},
		{text: `2[]`, kind: '2', nsp: "/", data: `[]`, badAsArgs: true},
		{text: `2`, kind: '2', nsp: "/", badAsArgs: true},
		{text: `2[{}]`, kind: '2', nsp: "/", data: `[{}]`, badAsArgs: true},
	}
	for _, test := range tests {
		name := test.text
		t.Run(name[:min(len(name), 40)], func(t *testing.T) {
			p, err := parsePacket([]byte(test.text))
			if test.bad {
				if !errors.Is(err, errPacket) {
					t.Fatalf("%+v, %v", p, err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if p.kind != test.kind || p.attachments != test.attachments || string(p.nsp) != test.nsp || string(p.id) != test.id || string(p.data) != test.data {
				t.Errorf("kind %c, %d attachments, nsp %s, id %s, data %s", p.kind, p.attachments, p.nsp, p.id, p.data)
			}
			if p.kind == packetEvent {
				if _, _, err := splitEvent(p.data, nil); test.badAsArgs != (err != nil) || err != nil && !errors.Is(err, errPacket) {
					t.Errorf("as an event: %v", err)
				}
			}
		})
	}
}

func TestSplitEventKeepsBytes(t *testing.T) {
	name, args, err := splitEvent([]byte(` `[1:]+`[ "n" , 12345678901234567890 ,1.50, {"a" : [1, 2]} , "\u20ac" ]`), nil)
	if err != nil || string(name) != `"n"` {
		t.Fatalf("%s, %v", name, err)
	}
	if got := joined(Payload{Args: args}); got != `12345678901234567890,1.50,{"a" : [1, 2]},"\u20ac"` {
		t.Errorf("args %s", got)
	}
}

func TestEncode(t *testing.T) {
	binary := Payload{Args: []json.RawMessage{Placeholder(0)}, Attachments: [][]byte{{1, 2}}}
	tests := []struct {
		name   string
		frames []engineio.Frame
		want   string
	}{
		{"event", encodeEvent("/", nil, "a", Payload{Args: raw("1", `"x"`)}), `2["a",1,"x"]`},
		{"event with an id in a namespace", encodeEvent("/x", []byte("5"), "a", Payload{Args: raw("1")}), `2/x,5["a",1]`},
		{"event without arguments", encodeEvent("/", nil, "a", Payload{}), `2["a",null]`},
		{"event with an argument that is nothing", encodeEvent("/", nil, "a", Payload{Args: []json.RawMessage{nil}}), `2["a",null]`},
		{"event with a strange name", encodeEvent("/", nil, `a"b`, Payload{Args: raw("1")}), `2["a\"b",1]`},
		{"binary event", encodeEvent("/", nil, "a", binary), `51-["a",{"_placeholder":true,"num":0}]`},
		{"binary event in a namespace", encodeEvent("/x", []byte("5"), "a", binary), `51-/x,5["a",{"_placeholder":true,"num":0}]`},
		{"no attachments", encodeEvent("/", nil, "a", Payload{Args: raw("1"), Attachments: [][]byte{}}), `2["a",1]`},
		{"ack", encodeAck("/", []byte("12"), Payload{Args: raw("1", "2")}), `312[1,2]`},
		{"empty ack", encodeAck("/x", []byte("12"), Payload{}), `3/x,12[]`},
		{"binary ack", encodeAck("/", []byte("12"), binary), `61-12[{"_placeholder":true,"num":0}]`},
		{"disconnect", []engineio.Frame{encodeControl(packetDisconnect, "/x", nil)}, `1/x,`},
		{"disconnect from the main namespace", []engineio.Frame{encodeControl(packetDisconnect, "/", nil)}, `1`},
		{"many arguments", encodeEvent("/", nil, "a", Payload{Args: raw("1", "2", "3", "4", "5", "6", "7", "8", "9", "10")}), `2["a",1,2,3,4,5,6,7,8,9,10]`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := string(test.frames[0].Data()); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
			for _, f := range test.frames[1:] {
				if !f.IsBinary() || !bytes.Equal(f.Data(), []byte{1, 2}) {
					t.Errorf("attachment %v", f.Data())
				}
			}
		})
	}
}

func TestAttachment(t *testing.T) {
	p := Payload{Attachments: [][]byte{{1}, {2}}}
	for value, want := range map[string]string{
		string(Placeholder(0)): "\x01", string(Placeholder(1)): "\x02",
		string(Placeholder(2)): "none", `{"_placeholder":true,"num":-1}`: "none", `{"_placeholder":true}`: "none",
		`{"num":0}`: "none", `{"_placeholder":false,"num":0}`: "none", `1`: "none", ``: "none", `{"_placeholder":true,"num":0.5}`: "none",
	} {
		data, ok := p.Attachment(json.RawMessage(value))
		if got := string(data); ok != (want != "none") || ok && got != want {
			t.Errorf("%s: %q, %v", value, got, ok)
		}
	}
}

// FuzzPacket parses anything; an event or ack that can be parsed comes out the same after being encoded again.
func FuzzPacket(f *testing.F) {
	for _, seed := range []string{"0", `0/x,{"a":1}`, `2["a",1,{"b":[null]}]`, `2/x,12["a"]`, `51-/x,7["a",{"_placeholder":true,"num":0}]`, `61-12[]`, `35`, "1/x,", `4"no"`, `2[1.5,"x"]`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		p, err := parsePacket(text)
		if err != nil || p.kind != packetEvent && p.kind != packetAck {
			return
		}
		attachments := make([][]byte, min(p.attachments, 3))
		p.attachments = len(attachments)
		var again []engineio.Frame
		var name []byte
		var args []json.RawMessage
		if p.kind == packetAck {
			if args, err = splitArray(p.data, nil); err != nil {
				return
			}
			again = encodeAck(string(p.nsp), p.id, Payload{Args: args, Attachments: attachments})
		} else {
			if name, args, err = splitEvent(p.data, nil); err != nil {
				return
			}
			var plain string
			if json.Unmarshal(name, &plain) != nil || len(args) == 0 {
				return // A number as a name, or no argument: both come out differently on purpose.
			}
			again = encodeEvent(string(p.nsp), p.id, plain, Payload{Args: args, Attachments: attachments})
		}
		q, err := parsePacket(again[0].Data())
		if err != nil {
			t.Fatalf("%q became %q: %v", text, again[0].Data(), err)
		}
		if q.kind != p.kind || q.attachments != p.attachments || !bytes.Equal(q.nsp, p.nsp) || !bytes.Equal(q.id, p.id) {
			t.Fatalf("%q became %q", text, again[0].Data())
		}
		second, err := splitArray(q.data, nil)
		if err != nil {
			t.Fatalf("%q became %q: %v", text, again[0].Data(), err)
		}
		if p.kind == packetEvent {
			second = second[1:]
		}
		if joined(Payload{Args: second}) != joined(Payload{Args: args}) {
			t.Fatalf("%q became %q", text, again[0].Data())
		}
	})
}
