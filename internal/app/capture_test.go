package app

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/gateway/result"
)

// TestCapture keeps calls without their secrets, and the beginning of long ones.
func TestCapture(t *testing.T) {
	keep := captureOf(result.NewRedactor([]string{"of-the-configuration"}))
	args := json.RawMessage(`{"password":"hunter2","apiKey":"q","pass\u0077ord":"hunter3","pin_token":1234,"max_tokens":5,"note":"of-the-configuration","city":"Bonn"}`)
	before := string(args)
	x := keep(args, json.RawMessage(`{"content":[{"type":"text","text":"{\"password\": \"hunter4\", \"city\":\"Ulm\"}"}]}`))
	got := string(x.Arguments) + string(x.Result)
	for _, secret := range []string{"hunter2", `"q"`, "hunter3", "1234", "of-the-configuration", "hunter4"} {
		if strings.Contains(got, secret) {
			t.Errorf("%s is kept: %s", secret, got)
		}
	}
	for _, plain := range []string{`"max_tokens":5`, `"city":"Bonn"`, `\"city\":\"Ulm\"`} {
		if !strings.Contains(got, plain) {
			t.Errorf("%s is lost: %s", plain, got)
		}
	}
	if !json.Valid(x.Arguments) || !json.Valid(x.Result) || x.ArgumentsCut || x.ResultCut || string(args) != before {
		t.Errorf("the arguments are changed, or what is kept is no JSON: %s", got)
	}
	for _, size := range []int{maxCaptured, maxSearched, 3 * maxSearched} {
		long := json.RawMessage(`"` + strings.Repeat("é", size/2) + `"`)
		x = keep(nil, long)
		if len(x.Result) > maxCaptured || !x.ResultCut || len(x.Arguments) != 0 || x.ArgumentsCut || strings.ToValidUTF8(string(x.Result), "!") != string(x.Result) {
			t.Errorf("of %d bytes %d are kept, cut %t", len(long), len(x.Result), x.ResultCut)
		}
	}
}
