package jsonrpc

import (
	"errors"
	"strings"
	"testing"
)

// What names something has a bound, so that no handler sees more of it.
func TestLongNames(t *testing.T) {
	long := `"` + strings.Repeat("x", maxNameBytes) + `"`
	for _, test := range []struct {
		method, params string
		refused        bool
	}{
		{"tools/call", `{"name":LONG}`, true},
		{"tools/call", `{"name":"a","arguments":{"name":LONG}}`, false},
		{"tools/call", `{"name":"a","_meta":{"x":LONG}}`, true},
		{"tools/call", `{"name":"a","arguments":{"_meta":LONG}}`, false},
		{"resources/read", `{"uri":LONG}`, true},
		{"tools/list", `{"cursor":LONG}`, true},
		{"completion/complete", `{"ref":{"type":"ref/prompt","name":LONG}}`, true},
		{"completion/complete", `{"context":{"arguments":{"a":LONG}}}`, true},
		{"x/y", `{"context":LONG}`, false},
		{"initialize", `{"clientInfo":{"name":LONG}}`, true},
		{"notifications/resources/updated", `{"uri":LONG}`, true},
		{"tools/call", `[LONG]`, false},
	} {
		m, err := Parse([]byte(`{"jsonrpc":"2.0","id":7,"method":"` + test.method + `","params":` + strings.Replace(test.params, "LONG", long, 1) + `}`))
		if (err != nil) != test.refused || err != nil && (!errors.Is(err, ErrInvalid) || m.ID != "7" || len(err.Error()) > 200) {
			t.Errorf("%s %s: %.300v, id %s", test.method, test.params, err, m.ID)
		}
	}
}
