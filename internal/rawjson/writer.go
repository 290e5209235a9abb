package rawjson

import "strconv"

// A Writer appends JSON to a buffer and sets the commas. Its methods return the
// Writer, so that a member is one expression:
//
//	w := rawjson.NewWriter(nil)
//	w.Object()
//	w.Key("name").String(name)
//	w.Key("size").Int(size)
//	w.EndObject()
//	return w.Bytes()
//
// It keeps no state but the buffer, and does not check that objects and arrays are
// closed or that members have keys: what is written where is for the caller to
// know. It is used by one goroutine at a time.
type Writer struct {
	buf   []byte
	start int // where the caller's own bytes end
}

// NewWriter returns a Writer that appends to dst, of which it is the only user
// until Bytes.
func NewWriter(dst []byte) *Writer { return &Writer{buf: dst, start: len(dst)} }

// Bytes returns the buffer: what the caller gave, and what was written behind it.
func (w *Writer) Bytes() []byte { return w.buf }

// separate writes the comma before a value or a key, where one belongs. No value
// ends with a bracket that opens, or with a colon.
func (w *Writer) separate() {
	if len(w.buf) == w.start {
		return
	}
	switch w.buf[len(w.buf)-1] {
	case '{', '[', ':':
	default:
		w.buf = append(w.buf, ',')
	}
}

func (w *Writer) open(c byte) *Writer {
	w.separate()
	w.buf = append(w.buf, c)
	return w
}

func (w *Writer) close(c byte) *Writer {
	w.buf = append(w.buf, c)
	return w
}

// Object begins an object.
func (w *Writer) Object() *Writer { return w.open('{') }

// EndObject ends an object.
func (w *Writer) EndObject() *Writer { return w.close('}') }

// Array begins an array.
func (w *Writer) Array() *Writer { return w.open('[') }

// EndArray ends an array.
func (w *Writer) EndArray() *Writer { return w.close(']') }

// Key begins a member.
func (w *Writer) Key(key string) *Writer {
	w.separate()
	w.buf = append(AppendString(w.buf, key), ':')
	return w
}

// String writes a text, as [AppendString] does.
func (w *Writer) String(s string) *Writer {
	w.separate()
	w.buf = AppendString(w.buf, s)
	return w
}

// Text writes a text that is there as bytes.
func (w *Writer) Text(text []byte) *Writer {
	w.separate()
	w.buf = AppendText(w.buf, text)
	return w
}

// Int writes a whole number.
func (w *Writer) Int(n int64) *Writer {
	w.separate()
	w.buf = strconv.AppendInt(w.buf, n, 10)
	return w
}

// Float writes a number, which must be finite, with as many digits as it needs.
func (w *Writer) Float(f float64) *Writer {
	w.separate()
	w.buf = strconv.AppendFloat(w.buf, f, 'g', -1, 64)
	return w
}

// Bool writes true or false.
func (w *Writer) Bool(b bool) *Writer {
	w.separate()
	w.buf = strconv.AppendBool(w.buf, b)
	return w
}

// Null writes null.
func (w *Writer) Null() *Writer {
	w.separate()
	w.buf = append(w.buf, "null"...)
	return w
}

// Raw writes a value that is JSON already, byte by byte; null where it is empty.
func (w *Writer) Raw(value []byte) *Writer {
	if len(value) == 0 {
		return w.Null()
	}
	w.separate()
	w.buf = append(w.buf, value...)
	return w
}

// Strings writes an array of texts.
func (w *Writer) Strings(list []string) *Writer {
	w.Array()
	for _, s := range list {
		w.String(s)
	}
	return w.EndArray()
}
