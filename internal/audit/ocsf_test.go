package audit

import (
	"encoding/json"
	"testing"
)

// TestOCSF compares events with the members that OCSF 1.3 wants for the class.
func TestOCSF(t *testing.T) {
	for line, want := range map[string]string{
		`{"seq":7,"time":"2026-11-29T10:00:00.5Z","kind":"end","principal":"ann","issuer":"https://idp","client":"app","ip":"10.0.0.1","session":"s","trace":"t","call":"c","method":"tools/call","server":"files","tool_id":"files:read","decision":"allow","outcome":"ok","ms":12.5,"result":"sha","prev":"00","hash":"ff"}`: `{"activity_id":99,"activity_name":"tools/call","actor":{"app_name":"app","idp":{"name":"https://idp"},"session":{"uid":"s"},"user":{"name":"ann"}},"api":{"operation":"tools/call","request":{"uid":"c"},"service":{"name":"files"}},"category_name":"Application Activity","category_uid":6,"class_name":"API Activity","class_uid":6003,"duration":12,"metadata":{"correlation_uid":"c","log_name":"audit","log_provider":"weir","original_time":"2026-11-29T10:00:00.5Z","product":{"name":"weir","vendor_name":"weir","version":"9"},"sequence":7,"uid":"ff","version":"1.3.0"},"resources":[{"name":"files:read","type":"MCP tool"}],"severity":"Informational","severity_id":1,"src_endpoint":{"ip":"10.0.0.1"},"status":"Success","status_code":"ok","status_id":1,"time":1795946400500,"type_name":"API Activity: tools/call","type_uid":600399,"unmapped":{"decision":"allow","kind":"end","prev":"00","result":"sha","trace":"t"}}`,
		`{"seq":8,"time":"2026-11-29T10:00:00Z","kind":"refusal","method":"resources/read","outcome":"permission_denied","detail":"no","args":{"a":1},"hash":"ff"}`:                                                                                                                                                            `{"activity_id":2,"activity_name":"Read","actor":{"app_name":"weir"},"api":{"operation":"resources/read","response":{"error":"permission_denied"}},"category_name":"Application Activity","category_uid":6,"class_name":"API Activity","class_uid":6003,"metadata":{"log_name":"audit","log_provider":"weir","original_time":"2026-11-29T10:00:00Z","product":{"name":"weir","vendor_name":"weir","version":"9"},"sequence":8,"uid":"ff","version":"1.3.0"},"severity":"Low","severity_id":2,"src_endpoint":{"name":"local"},"status":"Failure","status_code":"permission_denied","status_detail":"no","status_id":2,"time":1795946400000,"type_name":"API Activity: Read","type_uid":600302,"unmapped":{"args":{"a":1},"kind":"refusal"}}`,
	} {
		got := OCSF([]byte(line), "9")
		if string(got) != want || !json.Valid(got) {
			t.Errorf("%s\nwant %s", got, want)
		}
	}
	for line, want := range map[string][3]int{ // activity, status, severity
		`{"kind":"begin","method":"tools/call"}`:                      {99, 0, 1},
		`{"kind":"end","method":"tools/call","outcome":"tool_error"}`: {99, 2, 2},
		`{"kind":"end","method":"prompts/get","outcome":"cached"}`:    {2, 1, 1},
		`{"kind":"end","method":"tools/call","outcome":"unread"}`:     {99, 0, 1},
		`{"kind":"end","method":"tasks/cancel","outcome":"ok"}`:       {4, 1, 1},
		`{"kind":"approval","decision":"deny"}`:                       {99, 2, 2},
		`{"kind":"config"}`:                                           {3, 1, 1},
		`{"kind":"view"}`:                                             {2, 1, 1},
		`{"kind":"dropped","count":3}`:                                {99, 1, 2},
	} {
		var event struct {
			Activity int `json:"activity_id"`
			Status   int `json:"status_id"`
			Severity int `json:"severity_id"`
			Type     int `json:"type_uid"`
		}
		if err := json.Unmarshal(OCSF([]byte(line), ""), &event); err != nil || [3]int{event.Activity, event.Status, event.Severity} != want || event.Type != 600300+event.Activity {
			t.Errorf("%s: %+v %v", line, event, err)
		}
	}
	if got := OCSF([]byte("no JSON"), ""); string(got) != "no JSON" {
		t.Errorf("%s", got)
	}
}
