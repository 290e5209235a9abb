package audit

import (
	"encoding/json"
	"time"
)

// The identifiers of OCSF 1.3 for an event of the class API Activity.
const (
	ocsfVersion  = "1.3.0"
	ocsfCategory = 6 // Application Activity
	ocsfClass    = 6003

	activityRead   = 2
	activityUpdate = 3
	activityDelete = 4
	activityOther  = 99

	severityInformational = 1
	severityLow           = 2

	statusUnknown = 0
	statusSuccess = 1
	statusFailure = 2
)

var activityNames = map[int]string{activityRead: "Read", activityUpdate: "Update", activityDelete: "Delete"}

// ocsfRecord is a line of the log, as far as OCSF has members for it. The others go along as they are.
type ocsfRecord struct {
	Seq       uint64  `json:"seq"`
	Time      string  `json:"time"`
	Kind      string  `json:"kind"`
	Principal string  `json:"principal"`
	Issuer    string  `json:"issuer"`
	Client    string  `json:"client"`
	IP        string  `json:"ip"`
	Session   string  `json:"session"`
	Call      string  `json:"call"`
	Method    string  `json:"method"`
	Server    string  `json:"server"`
	ToolID    string  `json:"tool_id"`
	Decision  string  `json:"decision"`
	Outcome   string  `json:"outcome"`
	Ms        float64 `json:"ms"`
	Detail    string  `json:"detail"`
	Hash      string  `json:"hash"`
}

// ocsfMembers are the members of a line that the event has elsewhere.
var ocsfMembers = []string{"seq", "time", "principal", "issuer", "client", "ip", "session", "call", "method", "server", "tool_id", "outcome", "ms", "detail", "hash"}

type object = map[string]any

// OCSF returns the event of a line of the log: an API Activity (6003). Members of the line that OCSF has no place for
// are in unmapped. A line that is no record is returned as it is.
func OCSF(line []byte, version string) []byte {
	var r ocsfRecord
	rest := map[string]json.RawMessage{}
	if json.Unmarshal(line, &r) != nil || json.Unmarshal(line, &rest) != nil {
		return line
	}
	for _, member := range ocsfMembers {
		delete(rest, member)
	}
	activity, name := r.activity()
	status, statusName := r.status()
	severity, severityName := severityInformational, "Informational"
	if status == statusFailure || r.Kind == "dropped" || r.Kind == "recovered" {
		severity, severityName = severityLow, "Low"
	}
	at, _ := time.Parse(time.RFC3339Nano, r.Time)
	operation := r.Method
	if operation == "" {
		operation = r.Kind
	}
	api := object{"operation": operation}
	if r.Server != "" {
		api["service"] = object{"name": r.Server}
	}
	if r.Call != "" {
		api["request"] = object{"uid": r.Call}
	}
	if status == statusFailure && r.Outcome != "" {
		api["response"] = object{"error": r.Outcome}
	}
	product := object{"name": "weir", "vendor_name": "weir"}
	if version != "" {
		product["version"] = version
	}
	metadata := object{
		"version": ocsfVersion, "product": product,
		"log_name": "audit", "log_provider": "weir", "sequence": r.Seq, "uid": r.Hash, "original_time": r.Time,
	}
	if r.Call != "" {
		metadata["correlation_uid"] = r.Call
	}
	actor, source := object{"app_name": "weir"}, object{"name": "local"}
	if r.Principal != "" {
		actor["user"] = object{"name": r.Principal}
	}
	if r.Issuer != "" {
		actor["idp"] = object{"name": r.Issuer}
	}
	if r.Client != "" {
		actor["app_name"] = r.Client
	}
	if r.Session != "" {
		actor["session"] = object{"uid": r.Session}
	}
	if r.IP != "" {
		source = object{"ip": r.IP}
	}
	event := object{
		"category_uid": ocsfCategory, "category_name": "Application Activity", "class_uid": ocsfClass, "class_name": "API Activity",
		"activity_id": activity, "activity_name": name, "type_uid": ocsfClass*100 + activity, "type_name": "API Activity: " + name,
		"time": at.UnixMilli(), "severity_id": severity, "severity": severityName, "status_id": status, "status": statusName,
		"metadata": metadata, "actor": actor, "api": api, "src_endpoint": source, "unmapped": rest,
	}
	if r.Outcome != "" {
		event["status_code"] = r.Outcome
	}
	if r.Detail != "" {
		event["status_detail"] = r.Detail
	}
	if r.Kind == "end" {
		event["duration"] = int64(r.Ms)
	}
	if r.ToolID != "" {
		event["resources"] = []object{{"name": r.ToolID, "type": "MCP tool"}}
	}
	out, err := json.Marshal(event)
	if err != nil {
		return line
	}
	return out
}

// activity returns the id and the name of what was done. A tool can do anything: its call is named by its method.
func (r *ocsfRecord) activity() (id int, name string) {
	id = activityOther
	switch r.Method {
	case "resources/read", "prompts/get", "completion/complete", "tasks/get", "tasks/result", "s2sp/data":
		id = activityRead
	case "tasks/cancel":
		id = activityDelete
	case "":
		switch r.Kind {
		case "view":
			id = activityRead
		case "config", "credential", "definition":
			id = activityUpdate
		}
	}
	if name = activityNames[id]; name == "" {
		if name = r.Method; name == "" {
			name = r.Kind
		}
	}
	return id, name
}

// status returns the outcome. A call that has just started has none yet.
func (r *ocsfRecord) status() (id int, name string) {
	switch {
	case r.Kind == "begin":
		return statusUnknown, "Unknown"
	case r.Kind == "refusal" || r.Decision == "deny", r.Outcome != "" && r.Outcome != "ok" && r.Outcome != "cached" && r.Outcome != "unread":
		return statusFailure, "Failure"
	case r.Outcome == "unread":
		return statusUnknown, "Unknown"
	}
	return statusSuccess, "Success"
}
