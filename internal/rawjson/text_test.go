package rawjson

import (
	"bytes"
	"testing"
	"unicode/utf8"
)

func TestRepairText(t *testing.T) {
	for in, want := range map[string]string{
		"":                     "",
		`{"a":"é中😀"}`:          `{"a":"é中😀"}`,
		"{\"a\":\"b\xff\"}":    "{\"a\":\"b\uFFFD\"}",
		"{\"a\":\"\xc3\"}":     "{\"a\":\"\uFFFD\"}",
		"\"\xed\xa0\x80\"":     "\"\uFFFD\"",
		"\"\xe4\xb8\xad\xfe\"": "\"中\uFFFD\"",
	} {
		if got := string(RepairText([]byte(in))); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
	valid := []byte(`{"a":"b"}`)
	if got := RepairText(valid); &got[0] != &valid[0] {
		t.Error("valid text was copied")
	}
}

// JSON stays JSON, whatever its strings hold.
func FuzzRepairText(f *testing.F) {
	f.Add([]byte("{\"a\":\"\\\"\xff\"}"))
	f.Add([]byte(`["\ud800","é"]`))
	f.Fuzz(func(t *testing.T, data []byte) {
		repaired := RepairText(data)
		if !utf8.Valid(repaired) || utf8.Valid(data) && !bytes.Equal(repaired, data) || Valid(data) == nil && Valid(repaired) != nil {
			t.Errorf("%q was repaired to %q", data, repaired)
		}
	})
}
