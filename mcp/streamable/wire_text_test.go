package streamable

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf8"

	"github.com/weir-mcp/weir/internal/json/rawjson"
)

// pieces returns its texts one by one.
type pieces []string

func (p *pieces) Read(b []byte) (int, error) {
	if len(*p) == 0 {
		return 0, io.EOF
	}
	n := copy(b, (*p)[0])
	if (*p)[0] = (*p)[0][n:]; (*p)[0] == "" {
		*p = (*p)[1:]
	}
	return n, nil
}

func TestTextReader(t *testing.T) {
	for _, c := range []struct {
		in   pieces
		want string
	}{
		{pieces{"data: é中😀\n\n"}, "data: é中😀\n\n"},
		{pieces{"a\xf0", "\x9f", "\x98", "\x80b"}, "a😀b"},
		{pieces{"a\xe4\xb8", "\xad"}, "a中"},
		{pieces{"a\xff", "b"}, "a�b"},
		{pieces{"a\xe4\xb8", "b"}, "a�b"},
		{pieces{"a\xe4\xb8"}, "a�"},
		{pieces{"\xff\xfe\xff", "\xff"}, "��"},
		{pieces{"x\xed\xa0\x80y"}, "x�y"},
		{pieces{""}, ""},
		{pieces{`"\ud83d\ude00"`}, `"\ud83d\ude00"`},
		{pieces{`"\ud83d"`, `"\\ud83d"`}, `"\ufffd""\\ud83d"`},
		{pieces{`"\`, `ud8`, `3d\u`, `de00"`}, `"\ud83d\ude00"`},
		{pieces{`"\ud83d`, `\`, `\ude00"`}, `"\ufffd\\ude00"`},
		{pieces{`"\ud83d`}, `"\ufffd`},
		{pieces{`"\`}, `"\`},
		{pieces{"\\ud83d\xf0", "\x9f\x98\x80"}, `\ufffd😀`},
		{pieces{strings.Repeat("\xff.", 1000)}, strings.Repeat("�.", 1000)},
	} {
		for _, size := range []int{1, 3, 7, 8, 9, 64, 4096} {
			in := append(pieces(nil), c.in...)
			got, err := io.ReadAll(sized{NewTextReader(&in), size})
			if err != nil || string(got) != c.want {
				t.Errorf("%q by %d: %q, %v, want %q", c.in, size, got, err, c.want)
			}
		}
	}
}

// sized reads into buffers of one size.
type sized struct {
	io.Reader
	size int
}

func (s sized) Read(p []byte) (int, error) { return s.Reader.Read(p[:min(len(p), s.size)]) }

// What is whole is handed on at once: a stream may be silent after it for long.
func TestTextReaderDoesNotWait(t *testing.T) {
	r, w := io.Pipe()
	defer r.Close()
	text := NewTextReader(r)
	buf := make([]byte, 64)
	for _, c := range []struct{ in, want string }{{"a\xe4\xb8", "a"}, {"\xadb", "中b"}, {"\xff", "�"}, {"c", "c"}, {`\ud83d"`, `\ufffd"`}} {
		go func() { _, _ = io.WriteString(w, c.in) }()
		n, err := text.Read(buf)
		if err != nil || string(buf[:n]) != c.want {
			t.Fatalf("after %q: %q, %v, want %q", c.in, buf[:n], err, c.want)
		}
	}
}

func TestTextReaderError(t *testing.T) {
	broken := errors.New("broken")
	for _, in := range []string{"", "abc", "ab\xff", "ab\xe4"} {
		got, err := io.ReadAll(NewTextReader(io.MultiReader(strings.NewReader(in), iotest.ErrReader(broken))))
		if !errors.Is(err, broken) || string(got) != strings.ToValidUTF8(in, "�") {
			t.Errorf("%q: %q, %v", in, got, err)
		}
		if got, err = io.ReadAll(NewTextReader(iotest.DataErrReader(strings.NewReader(in)))); err != nil || string(got) != strings.ToValidUTF8(in, "�") {
			t.Errorf("%q with its end: %q, %v", in, got, err)
		}
	}
}

// However a text is cut, it is the same once it is read, and without what clients cannot parse.
func FuzzTextReader(f *testing.F) {
	f.Add([]byte("é中😀\xff"), uint8(3))
	f.Add([]byte("\xf0\x9f\x98"), uint8(1))
	f.Add([]byte(`\\ud83d\ud83d\ude00\\\ude00`), uint8(5))
	f.Fuzz(func(t *testing.T, data []byte, size uint8) {
		got, err := io.ReadAll(sized{NewTextReader(sized{bytes.NewReader(data), int(size%9) + 1}), int(size/9) + 1})
		if err != nil || !utf8.Valid(got) || rawjson.HalfPair(got, 0) >= 0 {
			t.Fatalf("%q became %q, %v", data, got, err)
		}
		// A run of wrong bytes may become one mark or several, by where it is cut.
		squeeze := func(s string) string {
			for strings.Contains(s, "��") {
				s = strings.ReplaceAll(s, "��", "�")
			}
			return s
		}
		if want := string(rawjson.RepairText(data)); squeeze(string(got)) != squeeze(want) {
			t.Fatalf("%q became %q, want %q", data, got, want)
		}
	})
}
