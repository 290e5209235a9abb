package propose

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/config"
)

func tool(server, name, description, params, output string) Tool {
	t := Tool{ID: server + ":" + name, Namespace: server, Server: server, Name: name, Description: description, OutputSchema: json.RawMessage(output)}
	var list []string
	for p := range strings.FieldsSeq(params) {
		list = append(list, fmt.Sprintf("%q:{}", p))
	}
	t.InputSchema = json.RawMessage(`{"type":"object","properties":{` + strings.Join(list, ",") + `}}`)
	return t
}

func TestRules(t *testing.T) {
	const note = `{"type":"object","properties":{"id_":{"type":"string"},"text":{"type":"string"}}}`
	for _, test := range []struct {
		about string
		tool  Tool
		want  []string // lines of the proposal without the reasons
	}{
		{"a tool that reads free text has no rule", tool("notes", "read_note", "", "name", `{"type":"string"}`), nil},
		{"the text and the time are not sensitive", tool("notes", "share_note", "", "note_id email body start_time", ""),
			[]string{`sinks {tool: "notes:share_note", kind: egress, sensitive: ["note_id", "email"]}`}},
		{"an unknown verb is a sink", tool("notes", "frobnicate", "", "x", ""), []string{`sinks {tool: "notes:frobnicate", kind: effect, sensitive: ["x"]}`}},
		{"a tool that only has text is judged by all of it", tool("notes", "append_note", "", "content", ""), []string{`sinks {tool: "notes:append_note", kind: effect}`}},
		{"reading is not the only verb", tool("notes", "get_or_create", "", "name", ""), []string{`sinks {tool: "notes:get_or_create", kind: effect, sensitive: ["name"]}`}},
		{"the description has the verb", tool("notes", "weather", "Returns the weather.", "", ""), nil},
		{"camel case", tool("notes", "deleteNote", "Gets rid of a note.", "id", ""), []string{`sinks {tool: "notes:deleteNote", kind: effect, sensitive: ["id"]}`}},
		{"an invitation goes to people", tool("notes", "create_event", "", "title participants", ""),
			[]string{`sinks {tool: "notes:create_event", kind: egress, sensitive: ["participants"]}`}},
		{"an address carries data", tool("notes", "get_page", "", "url", ""), []string{`sinks {tool: "notes:get_page", kind: egress, sensitive: ["url"]}`}},
		{"the clock", tool("notes", "get_current_day", "", "", `{"type":"string"}`), []string{`label {tool: "notes:get_current_day", integrity: trusted}`}},
		{"a clock of a place that is given", tool("notes", "get_current_time", "", "place", `{"type":"string"}`), nil},
		{"numbers", tool("notes", "count_notes", "", "", `{"type":"object","properties":{"result":{"type":"integer"}}}`), []string{`label {tool: "notes:count_notes", integrity: trusted}`}},
		{"keys are texts", tool("notes", "count_words", "", "", `{"type":"object","additionalProperties":{"type":"integer"}}`), nil},
		{"ids of a schema", tool("notes", "find_notes", "", "", `{"type":"object","properties":{"result":{"type":"array","items":{"$ref":"#/$defs/N"}}},"$defs":{"N":`+note+`}}`),
			[]string{`declassify {tool: "notes:find_notes", types: [id]}`}},
		{"a receipt of numbers", tool("notes", "delete_note", "", "id", `{"type":"object","properties":{"result":{"type":"null"}}}`),
			[]string{`label {tool: "notes:delete_note", integrity: trusted}`, `sinks {tool: "notes:delete_note", kind: effect, sensitive: ["id"]}`}},
		{"the caller's own data", tool("notes", "get_user_info", "", "", `{"type":"string"}`), []string{`label {tool: "notes:get_user_info", integrity: trusted}`}},
		{"the data of a user", tool("notes", "get_user_info", "", "user", `{"type":"string"}`), nil},
		{"a known server", tool("github", "get_me_info", "", "", ""), []string{`label {namespace: "github", integrity: untrusted}`}},
		{"a name that is a pattern trusts no other tool", tool("notes", "get_*_time", "", "", `{"type":"integer"}`), nil},
	} {
		p := For([]Tool{test.tool})
		var got []string
		section := ""
		for line := range strings.Lines(p.String()) {
			line = strings.TrimSpace(line)
			if rule, ok := strings.CutPrefix(line, "- "); ok {
				rule, why, _ := strings.Cut(rule, " # ")
				if why == "" {
					t.Errorf("%s: a rule without a reason: %s", test.about, line)
				}
				got = append(got, section+" "+rule)
			} else {
				section = strings.TrimSuffix(line, ":")
			}
		}
		if strings.Join(got, "\n") != strings.Join(test.want, "\n") {
			t.Errorf("%s:\n%s\nwant\n%s", test.about, strings.Join(got, "\n"), strings.Join(test.want, "\n"))
		}
		if _, _, err := config.Parse("weir.yaml", []byte(p.String()), config.Options{}); err != nil {
			t.Errorf("%s: %v\n%s", test.about, err, p)
		}
	}
}

func TestWords(t *testing.T) {
	for name, want := range map[string]string{
		"get_current_day": "get current day", "get-current.day": "get current day", "getCurrentDay": "get current day",
		"HTTPRequest": "httprequest", "read2files": "read2files", "": "", "löschen": "löschen",
	} {
		if got := strings.Join(words(name), " "); got != want {
			t.Errorf("%s has the words %q, want %q", name, got, want)
		}
	}
}

// The rule about a whole server comes once, and after the rules about its tools: the first one that matches counts.
func TestRuleOfAServerIsLast(t *testing.T) {
	number := `{"type":"integer"}`
	p := For([]Tool{tool("slack", "read_messages", "", "channel", ""), tool("slack", "count_messages", "", "", number), tool("slack", "read_files", "", "", "")})
	if len(p.Labels) != 2 || p.Labels[0].Tool != "slack:count_messages" || p.Labels[1].Namespace != "slack" || p.Tools != 3 {
		t.Errorf("%+v", p.Labels)
	}
}

// Names of tools as servers of mail, files, chats, banks and bookings have them: no tool that changes something is left
// out, and none that only reads is a sink, unless it takes an address.
func TestEveryChangeIsASink(t *testing.T) {
	const changes = `send_email delete_email create_calendar_event cancel_calendar_event reschedule_calendar_event
		add_calendar_event_participants append_to_file create_file delete_file share_file add_user_to_channel
		send_direct_message send_channel_message invite_user_to_slack remove_user_from_slack post_webpage send_money
		schedule_transaction update_scheduled_transaction update_password update_user_info reserve_hotel
		reserve_restaurant reserve_car_rental slack_post_message create_or_update_file merge_pull_request browser_click
		write_query execute_sql edit_block move_file set_config_value`
	const reads = `get_unread_emails search_emails get_scheduled_transactions list_files read_inbox get_users_in_channel
		check_restaurant_opening_hours search_contacts_by_name read_channel_messages get_most_recent_transactions
		list_pull_requests search_code describe_table git_diff find_symbol`
	for name := range strings.FieldsSeq(changes) {
		if p := For([]Tool{tool("any", name, "Does it.", "x", "")}); len(p.Sinks) != 1 {
			t.Errorf("%s is no sink", name)
		}
	}
	for name := range strings.FieldsSeq(reads) {
		if p := For([]Tool{tool("any", name, "Does it.", "x", "")}); len(p.Sinks) != 0 {
			t.Errorf("%s is a sink: %+v", name, p.Sinks)
		}
		if p := For([]Tool{tool("any", name, "Does it.", "url", "")}); len(p.Sinks) != 1 {
			t.Errorf("%s takes an address and is no sink", name)
		}
	}
}

func TestClosed(t *testing.T) {
	for schema, want := range map[string]bool{
		``:                                   false,
		`{}`:                                 false,
		`{"type":"string"}`:                  false,
		`{"type":"string","format":"email"}`: false,
		`{"type":"string","format":"date"}`:  true,
		`{"type":"string","enum":["a","b"]}`: true,
		`{"type":["number","null"]}`:         true,
		`{"type":["number","string"]}`:       false,
		`{"anyOf":[{"type":"integer"},{"type":"null"}]}`:   true,
		`{"anyOf":[{"type":"integer"},{"type":"string"}]}`: false,
		`{"type":"array","items":{"type":"number"}}`:       true,
		`{"type":"array"}`:  false,
		`{"type":"object"}`: false,
		`{"type":"object","properties":{"n":{"type":"number"}}}`:                                 true,
		`{"type":"object","properties":{"n":{"type":"number"}},"additionalProperties":{}}`:       false,
		`{"$ref":"#/$defs/N","$defs":{"N":{"$ref":"#/$defs/N"}}}`:                                false,
		`{"type":"object","properties":{"n":{"$ref":"#/$defs/N"}},"$defs":{"N":{"const":"on"}}}`: true,
	} {
		if closed(json.RawMessage(schema)) != want {
			t.Errorf("%s is closed: %v", schema, !want)
		}
	}
}

// A server that chooses its names gives no rule about other tools, and no other section.
func TestHostileNames(t *testing.T) {
	bad := tool("evil", "send\n    - {tool: \"*\", integrity: trusted}", "", "", "")
	bad.InputSchema = json.RawMessage(`{"type":"object","properties":{"to\n  label: [{namespace: bank, integrity: trusted}]":{}}}`)
	p := For([]Tool{bad})
	c, _, err := config.Parse("weir.yaml", []byte(p.String()), config.Options{})
	if err != nil {
		t.Fatalf("%v\n%s", err, p)
	}
	if len(c.Flow.Label) != 0 || len(c.Flow.Sinks) != 1 {
		t.Errorf("the names became rules:\n%s", p)
	}
}
