package smcp

import (
	"bytes"
	"encoding/json"
)

// Namespace is the Socket.IO namespace of the protocol. A hub may have another one.
const Namespace = "/smcp"

// Events that an Agent sends to a Computer through the Server. Each has an ack.
const (
	EventToolCall     = "client:tool_call"
	EventGetTools     = "client:get_tools"
	EventGetConfig    = "client:get_config"
	EventGetMCPConfig = "client:get_mcp_config" // EventGetConfig in the first draft
	EventGetDesktop   = "client:get_desktop"
	EventGetResources = "client:get_resources"
	EventGetSkills    = "client:get_skills"
	EventGetSkill     = "client:get_skill"
	EventGetBlob      = "client:get_blob"
	EventPutBlob      = "client:put_blob"
	// EventMCP carries raw JSON-RPC to one MCP server of a Computer; see MCPRequest. It is an
	// extension of weir.
	EventMCP = "client:mcp"
)

// Events that a peer sends to the Server.
const (
	EventJoin            = "server:join_office"
	EventLeave           = "server:leave_office"
	EventListRoom        = "server:list_room"
	EventCancel          = "server:tool_call_cancel"
	EventUpdateConfig    = "server:update_config"
	EventUpdateMCPConfig = "server:update_mcp_config" // EventUpdateConfig in the first draft
	EventUpdateTools     = "server:update_tool_list"
	EventUpdateDesktop   = "server:update_desktop"
	EventUpdateSkills    = "server:update_skills"
	// EventChallenge requests a nonce that a Computer signs to prove its key.
	EventChallenge = "server:challenge"
	// EventServerMCP carries a Computer's messages on a channel of EventMCP.
	EventServerMCP = "server:mcp"
)

// Events that the Server sends to a room. EventNotifyMCP goes to the Agent only.
const (
	NotifyEnter           = "notify:enter_office"
	NotifyLeave           = "notify:leave_office"
	NotifyCancel          = "notify:tool_call_cancel"
	NotifyUpdateConfig    = "notify:update_config"
	NotifyUpdateMCPConfig = "notify:update_mcp_config" // NotifyUpdateConfig in the first draft
	NotifyUpdateTools     = "notify:update_tool_list"
	NotifyUpdateDesktop   = "notify:update_desktop"
	NotifyUpdateSkills    = "notify:update_skills"
	NotifyMCP             = "notify:mcp"
)

// Role is the role of a peer in an office.
type Role string

// Roles.
const (
	RoleAgent    Role = "agent"
	RoleComputer Role = "computer"
)

// Valid reports whether r is RoleAgent or RoleComputer.
func (r Role) Valid() bool { return r == RoleAgent || r == RoleComputer }

// Join is the payload of server:join_office.
type Join struct {
	Role     Role   `json:"role"`
	Name     string `json:"name"`
	OfficeID string `json:"office_id"`
	// RobotID is the name of a peer of the first draft.
	RobotID string `json:"robot_id,omitempty"`
	// MCP announces support of the general channel client:mcp.
	MCP bool `json:"mcp,omitempty"`
	// Proof shows that a Computer holds its private key; see Prove.
	Proof *Proof `json:"proof,omitempty"`
	// Instance is a random text that distinguishes processes with the same key. weir's hub gives the
	// name to the newest process.
	Instance string `json:"instance,omitempty"`
}

// Leave is the payload of server:leave_office.
type Leave struct {
	OfficeID string `json:"office_id"`
}

// Call holds the common members of client:* payloads.
type Call struct {
	Agent    string `json:"agent"`
	RobotID  string `json:"robot_id,omitempty"`
	ReqID    string `json:"req_id"`
	Computer string `json:"computer"`
	// Version is the Agent's a2c_version. weir's hub sends it to weir's Computers, so that tool names
	// and errors follow the Agent's dialect. It is "" if the Agent announced none, VersionDraft for
	// the first draft, and nil if the hub does not send it.
	Version *string `json:"a2c_version,omitempty"`
	// Traceparent, Tracestate and Baggage are the headers of W3C Trace Context and W3C Baggage.
	Traceparent string `json:"traceparent,omitempty"`
	Tracestate  string `json:"tracestate,omitempty"`
	Baggage     string `json:"baggage,omitempty"`
}

// ToolCall is the payload of client:tool_call.
type ToolCall struct {
	Call
	ToolName string          `json:"tool_name"`
	Params   json.RawMessage `json:"params"`
	Timeout  float64         `json:"timeout"` // seconds; 0: the Computer's default
}

// Tool is one entry of the answer to client:get_tools.
type Tool struct {
	Name         string          `json:"name"`
	BundleID     string          `json:"bundle_id,omitempty"` // id of the MCP server, 0.3 and later
	Description  string          `json:"description"`
	ParamsSchema json.RawMessage `json:"params_schema"`
	ReturnSchema json.RawMessage `json:"return_schema"` // null if absent
	// Meta holds strings, numbers and booleans; MetaTool and MetaAnnotation are JSON texts.
	Meta json.RawMessage `json:"meta,omitempty"`
}

// Keys of Tool.Meta and of the meta of results.
const (
	MetaTool       = "a2c_tool_meta"
	MetaAnnotation = "MCP_TOOL_ANNOTATION"
	MetaCancelled  = "a2c_cancelled"
	MetaReason     = "a2c_cancel_reason"
	MetaTimeout    = "a2c_timeout"
	MetaBlob       = "a2c_blob_handle"
	MetaSignature  = "weir/signature"
)

// ReasonAgent is the MetaReason of a call that its agent cancelled.
const ReasonAgent = "agent_requested"

// Tools is the answer to client:get_tools.
type Tools struct {
	Tools []Tool `json:"tools"`
	ReqID string `json:"req_id"`
}

// GetDesktop is the payload of client:get_desktop.
type GetDesktop struct {
	Call
	Size   *int   `json:"desktop_size,omitempty"` // maximum number of windows; nil: all
	Window string `json:"window,omitempty"`       // URI of the only window to return; "": all
}

// Desktop is the answer to client:get_desktop: each entry is a window's URI, an
// empty line and its text.
type Desktop struct {
	Desktops []string `json:"desktops"`
	ReqID    string   `json:"req_id"`
}

// GetResources is the payload of client:get_resources (0.2).
type GetResources struct {
	Call
	Server string `json:"mcp_server"`
	Cursor string `json:"cursor,omitempty"`
}

// Resources is the answer to client:get_resources.
type Resources struct {
	Resources  []json.RawMessage `json:"resources"`
	NextCursor string            `json:"next_cursor,omitempty"`
	ReqID      string            `json:"req_id"`
}

// Config is the answer to client:get_config: input definitions, and servers by name with placeholders
// in place of secrets.
type Config struct {
	Inputs  []json.RawMessage          `json:"inputs,omitempty"`
	Servers map[string]json.RawMessage `json:"servers"`
}

// SkillRef is one entry of the answer to client:get_skills (0.2.1).
type SkillRef struct {
	Name        string `json:"name"`
	Source      string `json:"source"`
	URI         string `json:"uri,omitempty"`
	Path        string `json:"path"`
	Description string `json:"description"`
}

// Skills is the answer to client:get_skills.
type Skills struct {
	Skills []SkillRef `json:"skills"`
	ReqID  string     `json:"req_id"`
}

// GetSkill is the payload of client:get_skill.
type GetSkill struct {
	Call
	Name    string `json:"name"`
	RelPath string `json:"rel_path,omitempty"` // "" is SKILL.md
}

// Skill is the answer to client:get_skill. Exactly one of Body and BlobHandle is
// set.
type Skill struct {
	Name       string  `json:"name"`
	RelPath    string  `json:"rel_path"`
	MIMEType   string  `json:"mime_type"`
	TotalSize  int64   `json:"total_size"`
	SHA256     string  `json:"sha256"`
	Body       *string `json:"body,omitempty"`
	BlobHandle string  `json:"blob_handle,omitempty"`
	ReqID      string  `json:"req_id"`
}

// GetBlob is the payload of client:get_blob.
type GetBlob struct {
	Call
	Handle   string `json:"blob_handle"`
	Offset   int64  `json:"chunk_offset,omitempty"`
	MaxChunk int    `json:"max_chunk_bytes,omitempty"`
}

// Blob is the answer to client:get_blob.
type Blob struct {
	Handle    string `json:"blob_handle"`
	MIMEType  string `json:"mime_type"`
	TotalSize int64  `json:"total_size"`
	SHA256    string `json:"sha256"`
	Offset    int64  `json:"chunk_offset"`
	EOF       bool   `json:"eof"`
	Data      []byte `json:"blob"` // base64 on the wire
	ReqID     string `json:"req_id"`
}

// PutBlob is the payload of client:put_blob (0.4). The first chunk has no UploadID and declares size
// and hash.
type PutBlob struct {
	Call
	UploadID  string `json:"upload_id,omitempty"`
	Offset    int64  `json:"chunk_offset"`
	EOF       bool   `json:"eof"`
	TotalSize int64  `json:"total_size,omitempty"`
	SHA256    string `json:"sha256,omitempty"`
	NameHint  string `json:"name_hint,omitempty"`
	Data      []byte `json:"blob"`
}

// PutBlobDone is the answer to client:put_blob. Only the answer to the last chunk has the last three
// fields.
type PutBlobDone struct {
	UploadID    string `json:"upload_id"`
	Offset      int64  `json:"chunk_offset"`
	LandingPath string `json:"landing_path,omitempty"`
	TotalSize   int64  `json:"total_size,omitempty"`
	SHA256      string `json:"sha256,omitempty"`
	ReqID       string `json:"req_id"`
}

// ListRoom is the payload of server:list_room.
type ListRoom struct {
	Agent    string `json:"agent,omitempty"`
	ReqID    string `json:"req_id"`
	OfficeID string `json:"office_id"`
}

// Session is one member of an office.
type Session struct {
	SID      string `json:"sid"`
	Name     string `json:"name"`
	Role     Role   `json:"role"`
	OfficeID string `json:"office_id"`
	// Version is the a2c_version of the member, "" if it announced none. Only peers of 0.2 and later
	// get it.
	Version string `json:"a2c_version,omitempty"`
	// MCP reports whether the Computer supports the general channel. Only peers that support it get
	// this member.
	MCP bool `json:"mcp,omitempty"`
}

// Room is the answer to server:list_room.
type Room struct {
	Sessions []Session `json:"sessions"`
	ReqID    string    `json:"req_id"`
}

// Presence is the payload of notify:enter_office and notify:leave_office. Either Computer or Agent is
// set.
type Presence struct {
	OfficeID string `json:"office_id"`
	Computer string `json:"computer,omitempty"`
	Agent    string `json:"agent,omitempty"`
}

// MCPRequest is the payload of client:mcp: JSON-RPC for one MCP server of a Computer. Messages of a
// channel arrive in order in both directions. The MCP server's messages arrive as MCPMessage with
// notify:mcp.
//
//	Agent                                   Computer
//	  │ client:mcp {channel, mcp_server, op:"open"} ─▶ │  ack {}
//	  │ client:mcp {channel, op:"send", message} ────▶ │  ack {}, or an error: the channel is gone
//	  │ ◀── server:mcp ▷ notify:mcp {channel, message} │  any number, also without a request
//	  │ client:mcp {channel, op:"close"} ────────────▶ │  ack {}
//
// Without a channel, message is one request and the ack is {"message": its response}.
type MCPRequest struct {
	Call
	Server  string          `json:"mcp_server,omitempty"`
	Channel string          `json:"channel,omitempty"`
	Op      string          `json:"op,omitempty"`
	Message json.RawMessage `json:"message,omitempty"`
	// AgentSID is the Agent's socket id, set by the hub. Messages on the channel repeat it, so that a
	// later Agent of the office does not get them.
	AgentSID string `json:"agent_sid,omitempty"`
}

// Values of MCPRequest.Op.
const (
	OpOpen  = "open"
	OpSend  = "send"
	OpClose = "close"
)

// MCPMessage is the payload of server:mcp and notify:mcp. Closed is the reason why a channel ended;
// Message is then absent.
type MCPMessage struct {
	Computer string          `json:"computer,omitempty"`
	Channel  string          `json:"channel"`
	AgentSID string          `json:"agent_sid,omitempty"`
	Message  json.RawMessage `json:"message,omitempty"`
	Closed   string          `json:"closed,omitempty"`
}

// Encode is like json.Marshal without HTML escapes, so that raw parts keep their text.
func Encode(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimRight(b.Bytes(), "\n"), nil
}

// Base returns the common part of a request.
func (c Call) Base() Call { return c }
