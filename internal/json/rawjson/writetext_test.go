package rawjson

import (
	"bytes"
	"errors"
	"strings"
	"testing"
)

// WriteText writes what Unquote returns, wherever its pieces end.
func TestWriteText(t *testing.T) {
	for _, unit := range []string{`a`, `\n`, `\\`, `a\"`, `\ud83d\ude00`, `x\u00e9\ud83d\ude00`, `\ud83d`, `\ude00x`, `\ud83d\u0041`, `\ud83d\n`, "é", strings.Repeat("plain ", 20_000) + `\t`} {
		for lead := range 13 {
			raw := []byte(`"` + strings.Repeat("-", lead) + strings.Repeat(unit, 3*textPiece/len(unit)+1) + `"`)
			want, err := Unquote(raw)
			if err != nil {
				t.Fatal(err)
			}
			var got bytes.Buffer
			if err := WriteText(&got, raw); err != nil || !bytes.Equal(got.Bytes(), want) {
				t.Fatalf("%.20q after %d: %d bytes, %v; want %d", unit, lead, got.Len(), err, len(want))
			}
		}
	}
	for _, tt := range []struct {
		raw  string
		want error
	}{{`""`, nil}, {`1`, ErrType}, {``, ErrType}, {`"`, ErrType}, {`"\ud83d"`, nil}, {`"\ud83d\ud8"`, ErrSyntax}, {"\"\xff\"", ErrSyntax}, {`"\x"`, ErrSyntax}} {
		if err := WriteText(&bytes.Buffer{}, []byte(tt.raw)); !errors.Is(err, tt.want) {
			t.Errorf("WriteText(%q) = %v, want %v", tt.raw, err, tt.want)
		}
	}
}

// EscapeTail makes what AppendText makes, without its quotes, and keeps what stands before.
func TestEscapeTail(t *testing.T) {
	for _, text := range []string{"", "plain", `"`, `\`, `a"b\c`, "\n\r\t\x00\x1f", "é\"€\n😀", strings.Repeat(`{"a":"b"}`, 100)} {
		want := QuoteText([]byte(text))
		want = append([]byte("before"), want[1:len(want)-1]...)
		for _, room := range []int{0, len(want)} {
			in := append(make([]byte, 0, room+len("before")+len(text)), "before"+text...)
			if got := EscapeTail(in, len("before")); !bytes.Equal(got, want) {
				t.Errorf("%q: %q, want %q", text, got, want)
			}
		}
	}
}
