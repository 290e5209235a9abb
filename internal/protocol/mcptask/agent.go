package mcptask

import (
	"encoding/json"
	"net/url"
	"strings"

	"github.com/weir-mcp/weir/internal/json/rawjson"
)

// AgentTaskURL returns the URL of a task at the agent server with this MCP endpoint.
func AgentTaskURL(endpoint *url.URL, id string) *url.URL {
	return endpoint.ResolveReference(&url.URL{Path: "getTaskStatus", RawQuery: url.Values{"taskId": {id}}.Encode()})
}

// AgentMade returns the id of the task that an agent server answered a tools/call with. The answer
// is an ordinary result with a taskId; ok is false for one without.
func AgentMade(result json.RawMessage) (id string, ok bool) {
	if !rawjson.MayHold(result, "taskId") {
		return "", false
	}
	var own, meta, isError []byte
	if rawjson.Scan(result, rawjson.Key("taskId", &own), rawjson.Key("_meta", &meta), rawjson.Key("isError", &isError)) != nil || string(isError) == "true" {
		return "", false
	}
	if id = rawjson.Text(own); id == "" && rawjson.IsObject(meta) {
		id = rawjson.Text(rawjson.Get(meta, "taskId"))
	}
	return id, id != "" && len(id) <= MaxID
}

// IsAgentTask reports whether body is a task in the form of an agent server.
func IsAgentTask(body []byte) bool {
	return rawjson.IsObject(body) && rawjson.IsObject(rawjson.Get(body, "task")) && json.Valid(body)
}

// Queued is the message of a task that an agent server has not started yet.
const Queued = "waits in the queue"

// agentStatuses maps the states of agent servers to the states of MCP. Any other state means that
// the task runs.
var agentStatuses = map[string]string{"completed": "completed", "failed": "failed", "cancelled": "cancelled"}

// ReadAgent reads a task in the form of an agent server. The State is like one of 2026-07-28: it has
// the result, or the error, of a task that has ended. Message is the last line of a running task's
// log, or Queued. ok is false if body is no task.
func ReadAgent(body json.RawMessage) (s State, ok bool) {
	var id, status, result, failure, log []byte
	if !IsAgentTask(body) || rawjson.Scan(rawjson.Get(body, "task"), rawjson.Key("id", &id), rawjson.Key("status", &status),
		rawjson.Key("result", &result), rawjson.Key("error", &failure), rawjson.Key("logTail", &log)) != nil || rawjson.Text(status) == "" {
		return s, false
	}
	s = State{ID: rawjson.Text(id), Status: agentStatuses[rawjson.Text(status)], Modern: true, Agent: true}
	switch s.Status {
	case "":
		if s.Status, s.Message = "working", lastLine(rawjson.Text(log)); rawjson.Text(status) == "pending" {
			s.Message = Queued
		}
	case "completed":
		s.Result = agentResult(result)
	case "failed":
		if s.Result = failedResult(result); s.Result == nil {
			s.Error = agentError(failure)
		}
	}
	return s, true
}

// agentResult returns the outcome of a task as the result of a tools/call.
func agentResult(raw json.RawMessage) json.RawMessage {
	switch {
	case isToolResult(raw):
		return raw
	case raw == nil || string(raw) == "null":
		return json.RawMessage(`{"content":[]}`)
	}
	text := raw
	if raw[0] != '"' {
		text = rawjson.QuoteText(raw)
	}
	w := rawjson.NewWriter(nil).Object()
	w.Key("content").Array().Object().Key("type").String("text").Key("text").Raw(text).EndObject().EndArray()
	if rawjson.IsObject(raw) {
		w.Key("structuredContent").Raw(raw)
	}
	return w.EndObject().Bytes()
}

// failedResult returns the result of a tool that ran and failed, nil if there is none.
func failedResult(raw json.RawMessage) json.RawMessage {
	if !isToolResult(raw) {
		return nil
	}
	out, err := rawjson.Set(raw, "isError", []byte("true"))
	if err != nil {
		return nil
	}
	return out
}

func isToolResult(raw json.RawMessage) bool {
	return rawjson.IsObject(raw) && (rawjson.IsArray(rawjson.Get(raw, "content")) || rawjson.IsObject(rawjson.Get(raw, "structuredContent")))
}

// agentError returns the error of a failed task, which is a text or an object with a message.
func agentError(raw json.RawMessage) json.RawMessage {
	message := rawjson.Text(raw)
	if rawjson.IsObject(raw) {
		message = rawjson.Text(rawjson.Get(raw, "message"))
	}
	if message == "" {
		message = "the task failed; its server gives no reason"
	}
	return append(rawjson.AppendString([]byte(`{"code":-32603,"message":`), message), '}')
}

// lastLine returns the last line of a log that is not empty.
func lastLine(log string) string {
	log = strings.TrimSpace(log)
	return strings.TrimSpace(log[strings.LastIndexByte(log, '\n')+1:])
}
