package observe

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/result"
)

// TestCapture keeps calls without their secrets, and the beginning of long ones.
func TestCapture(t *testing.T) {
	keep := Capture(result.NewRedactor([]string{"of-the-configuration"}))
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

// TestCaptureHides: what stands under the name of a secret is hidden in every form, whole or cut.
func TestCaptureHides(t *testing.T) {
	keep := Capture(result.NewRedactor(nil))
	quoted := func(s string) string { b, _ := json.Marshal(s); return string(b) }
	for _, one := range []string{
		`{"passwords":["hunter-2"],"city":"Bonn"}`,
		`{"credentials":{"user":"x","value":["hunter-2",{"a":"hunter-2"}]},"city":"Bonn"}`,
		`{"password":"a\\b\"hunter-2","city":"Bonn"}`,
		`{"headers":[{"name":"X-Api-Key","value":"hunter-2"}],"city":"Bonn"}`,
		`[{"password":"hunter-2"},"Bonn"]`,
		`{"note":"API_KEY=hunter-2-hunter-2","city":"Bonn"}`,
	} {
		for level := range 4 {
			if x := keep(nil, json.RawMessage(one)); strings.Contains(string(x.Result), "hunter-2") || !strings.Contains(string(x.Result), "Bonn") || !json.Valid(x.Result) || x.ResultCut {
				t.Errorf("level %d: %s of %s", level, x.Result, one)
			}
			rest := strings.Repeat("x", 2*maxSearched)
			long := `{"text":` + strings.TrimSuffix(quoted(one+rest), `"`) // never ends
			if x := keep(nil, json.RawMessage(long)); strings.Contains(string(x.Result), "hunter-2") || !strings.Contains(string(x.Result), "Bonn") || !x.ResultCut {
				t.Errorf("level %d, cut: %.200s of %s", level, x.Result, one)
			}
			one = `{"text":` + quoted(one) + `}`
		}
	}
	long := `{"password":"` + strings.Repeat("hunter-2", maxSearched)
	if x := keep(nil, json.RawMessage(long)); strings.Contains(string(x.Result), "hunter") {
		t.Errorf("%.100s", x.Result)
	}
	same := `{ "a" : [1, -2.5e3, true, null, "é\u0041\n"], "b": {"c": []} }`
	if x := keep(nil, json.RawMessage(same)); string(x.Result) != same {
		t.Errorf("%s is kept as %s", same, x.Result)
	}
}
