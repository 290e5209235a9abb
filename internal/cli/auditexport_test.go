package cli

import (
	"bytes"
	"encoding/csv"
	"testing"
)

// A spreadsheet computes no text of a caller.
func TestTableHasNoFormulas(t *testing.T) {
	var out bytes.Buffer
	write := recordTable(&out)
	for _, raw := range [][]byte{
		[]byte(`{"seq":1,"time":"2026-11-29T10:00:00Z","kind":"end","principal":"=cmd|' /c calc'!A0","tool_id":"@sum","method":"a,\"b\"","ms":1.5,"labels":["untrusted","hr"]}`),
		nil,
	} {
		if err := write(raw); err != nil {
			t.Fatal(err)
		}
	}
	rows, err := csv.NewReader(&out).ReadAll()
	if err != nil || len(rows) != 2 {
		t.Fatalf("%v, %v", rows, err)
	}
	got := map[string]string{}
	for i, name := range rows[0] {
		got[name] = rows[1][i]
	}
	for name, want := range map[string]string{"seq": "1", "time": "2026-11-29T10:00:00Z", "principal": "'=cmd|' /c calc'!A0", "tool_id": "'@sum", "method": `a,"b"`, "ms": "1.5", "labels": "untrusted hr", "server": ""} {
		if got[name] != want {
			t.Errorf("%s: %q, want %q", name, got[name], want)
		}
	}
}
