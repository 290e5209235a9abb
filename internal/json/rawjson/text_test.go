package rawjson

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
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
		`"\ud83d\ude00"`:       `"\ud83d\ude00"`,
		`"\uD83D\uDE00\u00e9"`: `"\uD83D\uDE00\u00e9"`,
		`"\ud83d"`:             `"\ufffd"`,
		`"\uDE00 \ud83d\n"`:    `"\ufffd \ufffd\n"`,
		`"\ud83d\ud83d\ude00"`: `"\ufffd\ud83d\ude00"`,
		`"\ude00\ud83d"`:       `"\ufffd\ufffd"`,
		`"\\ud83d"`:            `"\\ud83d"`,
		`"\\\ud83d"`:           `"\\\ufffd"`,
		`"\ud83d\\ude00"`:      `"\ufffd\\ude00"`,
		`"\u0041\udbff\u0041"`: `"\u0041\ufffd\u0041"`,
		"\"\xff\\ud83d\"":      "\"\uFFFD\\ufffd\"",
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

// JSON stays JSON, whatever its strings hold, and means to encoding/json what it meant before.
func FuzzRepairText(f *testing.F) {
	f.Add([]byte("{\"a\":\"\\\"\xff\"}"))
	f.Add([]byte(`["\ud800","é"]`))
	f.Add([]byte(`["\\ud800\ud83d\ude00\\\uDC00"]`))
	f.Fuzz(func(t *testing.T, data []byte) {
		repaired := RepairText(data)
		if !utf8.Valid(repaired) || HalfPair(repaired, 0) >= 0 || utf8.Valid(data) && HalfPair(data, 0) < 0 && !bytes.Equal(repaired, data) {
			t.Errorf("%q was repaired to %q", data, repaired)
		}
		if Valid(data) != nil {
			return
		}
		var before, after any
		if json.Unmarshal(repaired, &after) != nil || json.Unmarshal(data, &before) != nil || utf8.Valid(data) && !reflect.DeepEqual(before, after) {
			t.Errorf("%q was repaired to %q", data, repaired)
		}
	})
}

// RepairEscapes repairs a text that comes in pieces like one that comes whole.
func TestRepairEscapes(t *testing.T) {
	for _, whole := range []string{
		`a\ud83d\ude00b`, `\ud83d\ud83d\ude00`, `\ud83d"x`, `\ude00\ude00`, `\\ud83d\\\ud83d\n`, `\u00e9\ud83d\u00e9`, `\\\\\ud83dx`, `"\ud83d\n"`,
	} {
		want := string(RepairText([]byte(whole)))
		for first := range len(whole) + 1 {
			for second := first; second <= len(whole); second++ {
				var got, held []byte
				for _, piece := range []string{whole[:first], whole[first:second], whole[second:]} {
					piece := append(held, piece...)
					n := len(piece) - RepairEscapes(piece)
					got, held = append(got, piece[:n]...), bytes.Clone(piece[n:])
				}
				if got = append(got, held...); string(got) != want {
					t.Errorf("%s in pieces, cut at %d and %d: %s, want %s", whole, first, second, got, want)
				}
			}
		}
	}
}

// BenchmarkRepairText compares the check of a valid text with that of its UTF-8 alone.
func BenchmarkRepairText(b *testing.B) {
	for name, unit := range map[string]string{
		"plain":     `{"id":17,"text":"An ordinary row of a table","tags":["a","b"]},`,
		"escapes":   `{\"id\":17,\"text\":\"JSON in a string\\n\"},`,
		"backslash": `\\\\\\\\\\\\\\\\\\\\\\\\`,
		"unicode":   `\u4e2d\u6587\u5b57\u7b26\ud83d\ude00`,
	} {
		for _, size := range []int{200, 64 << 10} {
			data := []byte(strings.Repeat(unit, size/len(unit)+1))
			b.Run(fmt.Sprintf("%s/%d/UTF-8 alone", name, size), func(b *testing.B) {
				b.SetBytes(int64(len(data)))
				for b.Loop() {
					utf8.Valid(data)
				}
			})
			b.Run(fmt.Sprintf("%s/%d/repair", name, size), func(b *testing.B) {
				b.SetBytes(int64(len(data)))
				for b.Loop() {
					RepairText(data)
				}
			})
		}
	}
}
