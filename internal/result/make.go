package result

import (
	"bytes"
	"encoding/base64"
	"errors"
	"io"
	"unicode/utf8"
	"unsafe"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/limit/memory"
)

// Maker returns the bytes that write writes, which come from other bytes, as [memory.Make] does for a call.
type Maker func(from []byte, write func(io.Writer) error) ([]byte, error)

// makeOnHeap is a Maker without an account.
func makeOnHeap(_ []byte, write func(io.Writer) error) ([]byte, error) {
	var b bytes.Buffer
	err := write(&b)
	return b.Bytes(), err
}

// text returns the text of a JSON string, as rawjson.Unquote does.
func (m Maker) text(quoted []byte) ([]byte, error) {
	if len(quoted) <= memory.Free || bytes.IndexByte(quoted, '\\') < 0 {
		return rawjson.Unquote(quoted) // a slice of it, if it is not small
	}
	text, err := m(quoted, func(w io.Writer) error { return rawjson.WriteText(w, quoted) })
	if errors.Is(err, rawjson.ErrSyntax) { // parts of it are to be replaced
		return rawjson.Unquote(quoted)
	}
	return text, err
}

// view returns the text of a JSON string, which is not to be changed.
func (m Maker) view(quoted []byte) ([]byte, error) {
	if body := quoted[1 : len(quoted)-1]; bytes.IndexByte(body, '\\') < 0 && utf8.Valid(body) {
		return body, nil
	}
	return m.text(quoted)
}

// textOf and viewOf return the same bytes as a string and as a slice, which is not to be changed.
func textOf(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
func viewOf(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }

// errNotBase64 says that a text is not base64.
var errNotBase64 = errors.New("the text is not base64")

// decoded returns the bytes of a JSON string in base64, with padding or without it.
func (m Maker) decoded(quoted []byte) ([]byte, error) {
	text, err := m.text(quoted)
	if err != nil {
		return nil, err
	}
	for _, encoding := range []*base64.Encoding{base64.StdEncoding, base64.RawStdEncoding} {
		data, err := m(text, func(w io.Writer) error {
			_, err := io.Copy(w, base64.NewDecoder(encoding, bytes.NewReader(text)))
			return err
		})
		var corrupt base64.CorruptInputError
		if !errors.As(err, &corrupt) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return data, err
		}
	}
	return nil, errNotBase64
}
