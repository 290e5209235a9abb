package wire

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
)

// TestFrames: frames are read as they were written, small and large.
func TestFrames(t *testing.T) {
	var pipe bytes.Buffer
	large := strings.Repeat("x", 3*small)
	for i, body := range []string{"", "{}", large} {
		if err := Write(&pipe, Call, uint32(i), []byte(`{"n":1}`), []byte(body)); err != nil {
			t.Fatal(err)
		}
	}
	for i, body := range []string{"", "{}", large} {
		h, err := Read(&pipe, 1<<20)
		if want := (Header{Call, uint32(i), 7, len(body)}); err != nil || h != want {
			t.Fatalf("header %+v, %v; want %+v", h, err, want)
		}
		got := make([]byte, h.Head+h.Body)
		if _, err := io.ReadFull(&pipe, got); err != nil || string(got) != `{"n":1}`+body {
			t.Fatalf("frame %d has %d bytes, %v", i, len(got), err)
		}
	}
	if _, err := Read(&pipe, 1); !errors.Is(err, io.EOF) {
		t.Errorf("after the last frame: %v", err)
	}
}

// TestBounds: a header that promises more than the reader takes is refused before its bytes are read.
func TestBounds(t *testing.T) {
	for name, h := range map[string]Header{
		"kind 0":       {0, 1, 0, 0},
		"kind unknown": {Fail + 1, 1, 0, 0},
		"head":         {Call, 1, MaxHead + 1, 0},
		"body":         {Call, 1, 0, 1001},
		"body of 4 GB": {Call, 1, 0, 1<<32 - 1},
	} {
		if _, err := Read(bytes.NewReader(h.Append(nil)), 1000); !errors.Is(err, ErrFrame) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for n := range headerSize {
		if _, err := Read(bytes.NewReader(make([]byte, n)), 1000); err == nil || errors.Is(err, ErrFrame) {
			t.Errorf("%d bytes of a header: %v", n, err)
		}
	}
}

// FuzzHeader: a header that is read is written as it was, and within the bounds of the reader.
func FuzzHeader(f *testing.F) {
	f.Add(Header{Call, 7, 12, 900}.Append(nil), int64(1000))
	f.Add(Header{End, 1 << 31, 0, 1<<32 - 1}.Append(nil), int64(1<<40))
	f.Add([]byte("not a frame"), int64(0))
	f.Fuzz(func(t *testing.T, b []byte, most int64) {
		h, err := Read(bytes.NewReader(b), most)
		if err != nil {
			return
		}
		if h.Head > MaxHead || int64(h.Body) > most || h.Kind < Start || h.Kind > Fail {
			t.Errorf("%+v is out of bounds", h)
		}
		if got := h.Append(nil); !bytes.Equal(got, b[:headerSize]) {
			t.Errorf("%x was read as %+v, which is %x", b[:headerSize], h, got)
		}
	})
}
