package a2c

import (
	"encoding/json"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/smcp"
)

// Dialect is a protocol version as it matters on the wire: the minor number of 0.x, or Draft. A peer
// without a version has Dialect01 until it sends something that only the first draft has; see
// Dialect.Hear.
type Dialect uint8

// Dialects.
const (
	Draft Dialect = iota // the protocol's first draft, older than its versions
	Dialect01
	Dialect02
	Dialect03
	Dialect04
	Dialect05
)

// String returns the dialect's name.
func (d Dialect) String() string {
	return [...]string{"draft", "0.1", "0.2", "0.3", "0.4", "0.5"}[d]
}

// Dialect returns the dialect of a version. The zero Version means a peer that announced none.
func (v Version) Dialect() Dialect {
	if v.Minor < 1 || v.Minor > 5 {
		return Dialect01
	}
	return Dialect(v.Minor)
}

// ToldDialect returns the dialect of an Agent from the text that a hub sends to a Computer; see
// smcp.Call.
func ToldDialect(version string) Dialect {
	if version == VersionDraft {
		return Draft
	}
	v, err := ParseVersion(version)
	if err != nil {
		return Dialect01
	}
	return v.Dialect()
}

// Versioned reports whether peers of the dialect announce a version.
func (d Dialect) Versioned() bool { return d >= Dialect02 }

// Hear returns the dialect of a peer after an event. A peer without a version is of the first draft
// once it uses robot_id or a *_mcp_config event.
func (d Dialect) Hear(event string, payload json.RawMessage) Dialect {
	if d != Dialect01 {
		return d
	}
	if event == smcp.EventGetMCPConfig || event == smcp.EventUpdateMCPConfig {
		return Draft
	}
	if rawjson.Get(payload, "robot_id") != nil && rawjson.Get(payload, "agent") == nil {
		return Draft
	}
	return d
}

// OneComputer reports whether an office has at most one Computer in the dialect.
func (d Dialect) OneComputer() bool { return d >= Dialect05 }

// Prefixed reports whether tool names start with the bundle id of their MCP server.
func (d Dialect) Prefixed() bool { return d >= Dialect03 }

// ToolName returns the name of a tool in the dialect.
func (d Dialect) ToolName(bundleID, name string) string {
	if d.Prefixed() {
		return bundleID + "__" + name
	}
	return name
}

// JoinOK returns the ack of a successful join or leave.
func (d Dialect) JoinOK() []json.RawMessage {
	if d >= Dialect05 {
		return nil
	}
	return []json.RawMessage{json.RawMessage("true"), json.RawMessage("null")}
}

// JoinFailed returns the ack of a failed join or leave.
func (d Dialect) JoinFailed(e *smcp.Error) []json.RawMessage {
	if d >= Dialect05 {
		return []json.RawMessage{flat(e)}
	}
	text := e.Message
	if e.Legacy != "" {
		text = e.Legacy
	}
	if d == Draft && e.Draft != "" {
		text = e.Draft
	}
	return []json.RawMessage{json.RawMessage("false"), rawjson.Quote(text)}
}

// Failed returns the ack of a failed client:* call or any other failed event. Peers without a version
// get both error shapes in one object.
func (d Dialect) Failed(e *smcp.Error) json.RawMessage {
	raw := flat(e)
	if d.Versioned() {
		return raw
	}
	both, err := rawjson.Set(raw, "error", raw)
	if err != nil {
		return raw
	}
	return both
}

// Relay converts a Computer's ack for an agent of the dialect. It removes the wrapper that Rust peers
// add, and gives an error the shape that the agent reads. All other bytes stay the same.
func (d Dialect) Relay(ack json.RawMessage) json.RawMessage {
	ack = Unwrap(ack)
	e := ReadError(ack)
	if e == nil {
		return ack
	}
	raw := flat(e)
	out, err := ack, error(nil)
	if rawjson.Get(ack, "message") == nil {
		for _, key := range []string{"code", "message", "details"} {
			if err == nil {
				out, err = rawjson.Set(out, key, rawjson.Get(raw, key))
			}
		}
	}
	if err == nil && !d.Versioned() && rawjson.Get(ack, "error") == nil {
		out, err = rawjson.Set(out, "error", raw)
	}
	if err != nil {
		return ack
	}
	return out
}

// flat returns the error object with all three members.
func flat(e *smcp.Error) json.RawMessage {
	out := *e
	if len(out.Details) == 0 {
		out.Details = json.RawMessage("{}")
	}
	raw, err := json.Marshal(&out)
	if err != nil {
		return json.RawMessage(`{"code":500,"message":"Internal error","details":{}}`)
	}
	return raw
}

// TimedOut returns the error of a call that was not answered in time.
func (d Dialect) TimedOut(what string) *smcp.Error {
	code := smcp.CodeTimeout
	if d.Versioned() {
		code = smcp.CodeTimeout02
	}
	return smcp.Errorf(code, "Request timeout: %s", what)
}

// Event returns the name of a client:* event for a peer of the dialect, from any spelling.
func (d Dialect) Event(event string) string {
	switch {
	case event == smcp.EventGetMCPConfig && d != Draft:
		return smcp.EventGetConfig
	case event == smcp.EventGetConfig && d == Draft:
		return smcp.EventGetMCPConfig
	}
	return event
}

// Notifications returns the names of a notification for peers of the dialect. Peers without a version
// get both spellings, because their dialect is unknown.
func (d Dialect) Notifications(event string) []string {
	if event == smcp.NotifyUpdateMCPConfig {
		event = smcp.NotifyUpdateConfig
	}
	if event == smcp.NotifyUpdateConfig && !d.Versioned() {
		return []string{smcp.NotifyUpdateConfig, smcp.NotifyUpdateMCPConfig}
	}
	return []string{event}
}

// Address sets the agent's name in a payload: in agent, and for peers without a version also in
// robot_id.
func (d Dialect) Address(payload json.RawMessage, agent string) (json.RawMessage, error) {
	name := rawjson.Quote(agent)
	out, err := rawjson.Set(payload, "agent", name)
	if err != nil {
		return nil, err
	}
	if d.Versioned() {
		return rawjson.Delete(out, "robot_id")
	}
	return rawjson.Set(out, "robot_id", name)
}

// AgentOf returns the agent that a payload names, in either spelling.
func AgentOf(payload json.RawMessage) string {
	if name := rawjson.Text(rawjson.Get(payload, "agent")); name != "" {
		return name
	}
	return rawjson.Text(rawjson.Get(payload, "robot_id"))
}
