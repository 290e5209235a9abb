package codec

import (
	"bytes"
	"fmt"
	"io"
	"testing"
)

func TestCountArrow(t *testing.T) {
	var out bytes.Buffer
	rows := make([]string, 20_000)
	for i := range rows {
		rows[i] = fmt.Sprintf(`{"a":%d}`, i)
	}
	if _, err := writeArrow(&out, rowsOf(t, rows...)); err != nil {
		t.Fatal(err)
	}
	var copied bytes.Buffer
	if n, err := countArrow(io.TeeReader(bytes.NewReader(out.Bytes()), &copied)); n != len(rows) || err != nil || !bytes.Equal(copied.Bytes(), out.Bytes()) {
		t.Errorf("%d rows, %d of %d bytes, %v", n, copied.Len(), out.Len(), err)
	}
	for _, cut := range []int{0, 10, out.Len() / 2} {
		if _, err := countArrow(bytes.NewReader(out.Bytes()[:cut])); err == nil {
			t.Errorf("a stream that ends after %d bytes is whole", cut)
		}
	}
}

// Whatever stands in a stream, it is counted or refused.
func TestCountArrowOfGarbage(t *testing.T) {
	var out bytes.Buffer
	if _, err := writeArrow(&out, rowsOf(t, `{"a":1,"b":"x"}`, `{"a":2,"b":null}`)); err != nil {
		t.Fatal(err)
	}
	for at := range out.Bytes() {
		for _, bits := range []byte{0x01, 0x80, 0xff} {
			data := bytes.Clone(out.Bytes())
			data[at] ^= bits
			if n, err := countArrow(bytes.NewReader(data)); n < 0 {
				t.Errorf("byte %d ^ %#x: %d rows, %v", at, bits, n, err)
			}
		}
	}
}
