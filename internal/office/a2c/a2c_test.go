package a2c_test

import (
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"net/url"
	"reflect"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/office/a2c"
	"github.com/weir-mcp/weir/internal/testkit/leak"
	"github.com/weir-mcp/weir/smcp"
)

func TestMain(m *testing.M) { leak.Main(m) }

func shown(raw []json.RawMessage) string {
	var out []string
	for _, r := range raw {
		out = append(out, string(r))
	}
	return "[" + strings.Join(out, ",") + "]"
}

// The dialects, row by row.
func TestDialects(t *testing.T) {
	const taken = `{"code":4101,"message":"Agent already in room","details":{}}`
	for _, row := range []struct {
		dialect       a2c.Dialect
		ok, failed    string
		route         string
		notifications []string
		get           string
		one           bool
		tool          string
		robot         bool
		timeout       int
	}{
		{a2c.Draft, "[true,null]", `[false,"Agent sid should equal office_id"]`, both(taken), []string{"notify:update_config", "notify:update_mcp_config"}, "client:get_mcp_config", false, "t", true, 408},
		{a2c.Dialect01, "[true,null]", `[false,"Internal server error: Agent already in room"]`, both(taken), []string{"notify:update_config", "notify:update_mcp_config"}, "client:get_config", false, "t", true, 408},
		{a2c.Dialect02, "[true,null]", `[false,"Internal server error: Agent already in room"]`, taken, []string{"notify:update_config"}, "client:get_config", false, "t", false, 4004},
		{a2c.Dialect03, "[true,null]", `[false,"Internal server error: Agent already in room"]`, taken, []string{"notify:update_config"}, "client:get_config", false, "b__t", false, 4004},
		{a2c.Dialect04, "[true,null]", `[false,"Internal server error: Agent already in room"]`, taken, []string{"notify:update_config"}, "client:get_config", false, "b__t", false, 4004},
		{a2c.Dialect05, "[]", "[" + taken + "]", taken, []string{"notify:update_config"}, "client:get_config", true, "b__t", false, 4004},
	} {
		t.Run(row.dialect.String(), func(t *testing.T) {
			d := row.dialect
			if got := shown(d.JoinOK()); got != row.ok {
				t.Errorf("join: %s, want %s", got, row.ok)
			}
			if got := shown(d.JoinFailed(a2c.ErrRoomTaken)); got != row.failed {
				t.Errorf("join failed: %s, want %s", got, row.failed)
			}
			if got := string(d.Failed(a2c.ErrRoomTaken)); got != row.route {
				t.Errorf("routing error: %s, want %s", got, row.route)
			}
			for _, event := range []string{smcp.NotifyUpdateConfig, smcp.NotifyUpdateMCPConfig} {
				if got := d.Notifications(event); !reflect.DeepEqual(got, row.notifications) {
					t.Errorf("notifications of %s: %v, want %v", event, got, row.notifications)
				}
			}
			for _, event := range []string{smcp.EventGetConfig, smcp.EventGetMCPConfig} {
				if got := d.Event(event); got != row.get {
					t.Errorf("%s: %s, want %s", event, got, row.get)
				}
			}
			if d.OneComputer() != row.one || d.ToolName("b", "t") != row.tool || d.TimedOut("x").Code != row.timeout {
				t.Errorf("one computer %v, tool %s, timeout %d", d.OneComputer(), d.ToolName("b", "t"), d.TimedOut("x").Code)
			}
			out, err := d.Address(json.RawMessage(`{"robot_id":"old","x":12345678901234567890}`), "a")
			if err != nil || a2c.AgentOf(out) != "a" || strings.Contains(string(out), "robot_id") != row.robot || !strings.Contains(string(out), "12345678901234567890") {
				t.Errorf("address: %s, %v", out, err)
			}
		})
	}
}

func both(flat string) string { return flat[:len(flat)-1] + `,"error":` + flat + "}" }

func TestHear(t *testing.T) {
	for _, test := range []struct {
		start          a2c.Dialect
		event, payload string
		want           a2c.Dialect
	}{
		{a2c.Dialect01, smcp.EventJoin, `{"role":"agent","name":"a","office_id":"a"}`, a2c.Dialect01},
		{a2c.Dialect01, smcp.EventToolCall, `{"robot_id":"a"}`, a2c.Draft},
		{a2c.Dialect01, smcp.EventToolCall, `{"robot_id":"a","agent":"a"}`, a2c.Dialect01},
		{a2c.Dialect01, smcp.EventGetMCPConfig, `{"agent":"a"}`, a2c.Draft},
		{a2c.Dialect01, smcp.EventUpdateMCPConfig, `{"computer":"c"}`, a2c.Draft},
		{a2c.Dialect04, smcp.EventGetMCPConfig, `{"robot_id":"a"}`, a2c.Dialect04},
		{a2c.Draft, smcp.EventGetConfig, `{"agent":"a"}`, a2c.Draft},
	} {
		if got := test.start.Hear(test.event, json.RawMessage(test.payload)); got != test.want {
			t.Errorf("%s %s: %s, want %s", test.event, test.payload, got, test.want)
		}
	}
}

func TestCheckVersion(t *testing.T) {
	for _, test := range []struct {
		query   string
		strict  bool
		dialect a2c.Dialect
		body    string // of a refusal, its beginning
		header  string
	}{
		{"", false, a2c.Dialect01, "", ""},
		{"", true, 0, `{"code":400,"message":"Missing a2c_version query parameter"}`, ""},
		{"a2c_version=", false, a2c.Dialect01, "", ""},
		{"a2c_version=0.2.1", false, a2c.Dialect02, "", ""},
		{"a2c_version=0.3.0-rc.1%2Bb7", true, a2c.Dialect03, "", ""},
		{"a2c_version=0.4.2", true, a2c.Dialect04, "", ""},
		{"a2c_version=0.5.0", true, a2c.Dialect05, "", ""},
		{"a2c_version=0.1.2", true, a2c.Dialect01, "", ""},
		{"a2c_version=abc", false, 0, `{"code":400,"message":"Invalid a2c_version: `, ""},
		{"a2c_version=0.4", false, 0, `{"code":400,"message":"Invalid a2c_version: `, ""},
		{"a2c_version=00.4.0", false, 0, `{"code":400,"message":"Invalid a2c_version: `, ""},
		{"a2c_version=1.0.0", false, 0, `{"code":4008,"message":"Protocol version mismatch","server_version":"0.5.0","client_version":"1.0.0","min_supported":"0.1.0","max_supported":"0.5.999"}`, "4008"},
		{"a2c_version=0.6.0", false, 0, `{"code":4008,"message":"Protocol version mismatch","server_version":"0.5.0","client_version":"0.6.0"`, "4008"},
	} {
		q, err := url.ParseQuery(test.query)
		if err != nil {
			t.Fatal(err)
		}
		v, refusal := a2c.CheckVersion(q, test.strict)
		if test.body == "" {
			if refusal != nil || v.Dialect() != test.dialect {
				t.Errorf("%q: %v %v, want %v", test.query, v.Dialect(), refusal, test.dialect)
			}
			continue
		}
		if refusal == nil || refusal.Status != 400 || !strings.HasPrefix(string(refusal.Body), test.body) || refusal.Header.Get(a2c.HeaderErrorCode) != test.header || refusal.Header.Get("Content-Length") == "" {
			t.Errorf("%q: %+v", test.query, refusal)
		}
	}
}

func TestReadAcks(t *testing.T) {
	for _, test := range []struct {
		ack  string
		code int // 0: no error
	}{
		{`{"code":404,"message":"m"}`, 404},
		{`{"error":{"code":403,"message":"m","details":{"a":1}}}`, 403},
		{`{"content":[],"isError":true}`, 0},
		{`{"tools":[],"req_id":"1"}`, 0},
		{`{"req_id":"1","code":404,"message":"m"}`, 404},
		{`{"code":404}`, 0},
		{`null`, 0},
		{`[true]`, 0},
		{`{"error":"text"}`, 0},
	} {
		e := a2c.ReadError(json.RawMessage(test.ack))
		if test.code == 0 && e != nil || test.code != 0 && (e == nil || e.Code != test.code) {
			t.Errorf("%s: %v", test.ack, e)
		}
	}
	for ack, want := range map[string]string{
		`{"Ok":{"a":1}}`:                        `{"a":1}`,
		`{"Ok":[true,null]}`:                    `[true,null]`,
		`{"Err":"broken"}`:                      `{"code":500,"message":"broken","details":{}}`,
		`{"Err":{"code":404,"message":"none"}}`: `{"code":404,"message":"none"}`,
		`{"Ok":1,"other":2}`:                    `{"Ok":1,"other":2}`,
		`{"tools":[]}`:                          `{"tools":[]}`,
		`{"Err":"x","extra":1}`:                 `{"Err":"x","extra":1}`,
	} {
		if got := string(a2c.Unwrap(json.RawMessage(ack))); got != want {
			t.Errorf("%s: %s, want %s", ack, got, want)
		}
	}
}

// An error that a Computer answers reaches each agent in its own shape.
func TestRelay(t *testing.T) {
	const (
		flat   = `{"code":404,"message":"none","details":{"a":1},"mcp_server":"s"}`
		nested = `{"error":{"code":404,"message":"none"},"req_id":"r"}`
		both   = `{"error":{"code":404,"message":"none"},"code":404,"message":"none","details":{}}`
	)
	for _, test := range []struct {
		dialect   a2c.Dialect
		ack, want string
	}{
		{a2c.Draft, flat, `{"code":404,"message":"none","details":{"a":1},"mcp_server":"s","error":{"code":404,"message":"none","details":{"a":1}}}`},
		{a2c.Dialect01, nested, `{"error":{"code":404,"message":"none"},"req_id":"r","code":404,"message":"none","details":{}}`},
		{a2c.Dialect01, both, both},
		{a2c.Dialect01, `{"Err":"broken"}`, `{"code":500,"message":"broken","details":{},"error":{"code":500,"message":"broken","details":{}}}`},
		{a2c.Dialect04, flat, flat},
		{a2c.Dialect04, nested, `{"error":{"code":404,"message":"none"},"req_id":"r","code":404,"message":"none","details":{}}`},
		{a2c.Dialect04, `{"Err":"broken"}`, `{"code":500,"message":"broken","details":{}}`},
		{a2c.Draft, `{"content":[],"code":1,"message":"m"}`, `{"content":[],"code":1,"message":"m"}`},
		{a2c.Draft, `{"Ok":{"tools":[],"req_id":"r"}}`, `{"tools":[],"req_id":"r"}`},
		{a2c.Draft, `null`, `null`},
	} {
		if got := string(test.dialect.Relay(json.RawMessage(test.ack))); got != test.want {
			t.Errorf("%s to %s:\n%s, want\n%s", test.ack, test.dialect, got, test.want)
		}
	}
}

func TestSignatures(t *testing.T) {
	pub, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	other, _, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	const result = `{"content":[{"type":"text","text":"1 < 2"}],"n":12345678901234567890}`
	signed, err := a2c.SignResult(key, "c", "t", "r", json.RawMessage(result))
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name                string
		key                 ed25519.PublicKey
		computer, tool, req string
		result              json.RawMessage
		want                error
	}{
		{"as it was", pub, "c", "t", "r", signed, nil},
		{"white space", pub, "c", "t", "r", json.RawMessage(strings.Replace(string(signed), `{"content"`, "{ \n \"content\"", 1)), nil},
		{"another computer", pub, "d", "t", "r", signed, smcp.ErrBadSignature},
		{"another tool", pub, "c", "u", "r", signed, smcp.ErrBadSignature},
		{"another request", pub, "c", "t", "s", signed, smcp.ErrBadSignature},
		{"another key", other, "c", "t", "r", signed, smcp.ErrBadSignature},
		{"changed", pub, "c", "t", "r", json.RawMessage(strings.Replace(string(signed), "1 < 2", "1 > 2", 1)), smcp.ErrBadSignature},
		{"unsigned", pub, "c", "t", "r", json.RawMessage(result), smcp.ErrUnsigned},
	} {
		if err := a2c.VerifyResult(test.key, test.computer, test.tool, test.req, test.result); !errors.Is(err, test.want) {
			t.Errorf("%s: %v, want %v", test.name, err, test.want)
		}
	}
	proof := a2c.Prove(key, "nonce", "sid", "c", "o")
	if !a2c.CheckProof(proof, pub, "nonce", "sid", "c", "o") {
		t.Error("a good proof was refused")
	}
	for _, wrong := range [][4]string{{"other", "sid", "c", "o"}, {"nonce", "x", "c", "o"}, {"nonce", "sid", "d", "o"}, {"nonce", "sid", "c", "p"}, {"", "sid", "c", "o"}} {
		if a2c.CheckProof(proof, pub, wrong[0], wrong[1], wrong[2], wrong[3]) {
			t.Errorf("a proof for something else was taken: %v", wrong)
		}
	}
}

func FuzzUnwrap(f *testing.F) {
	for _, seed := range []string{`{"Ok":1}`, `{"Err":"x"}`, `{}`, `{"a":`, `[`, `{"error":{"code":1,"message":"m"}}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		out := a2c.Unwrap(data)
		if e := a2c.ReadError(out); e != nil && len(e.Error()) == 0 {
			t.Error("an error without a text")
		}
	})
}
