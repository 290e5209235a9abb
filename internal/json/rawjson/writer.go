package rawjson

import "strconv"

// Writer appends JSON to a buffer and sets the commas. Its methods return the
// Writer, so that a member is one expression:
//
//	w := rawjson.NewWriter(nil)
//	w.Object()
//	w.Key("name").String(name)
//	w.Key("size").Int(size)
//	w.EndObject()
//	return w.Bytes()
//
// It keeps no state except the buffer. The caller must close objects and arrays and give each member
// of an object a key: the Writer does not check it. It must not be used concurrently.
type Writer struct {
	buf   []byte
	start int // where the caller's own bytes end
}

// Object returns an object of one member, whose value is JSON already.
func Object(key string, value []byte) []byte {
	out := make([]byte, 0, len(key)+len(value)+len(`{"":}`))
	out = append(AppendString(append(out, '{'), key), ':')
	return append(append(out, value...), '}')
}

// NewWriter returns a Writer that appends to dst. The caller must not use dst before Bytes.
func NewWriter(dst []byte) *Writer { return &Writer{buf: dst, start: len(dst)} }

// Bytes returns the buffer: the caller's own bytes and the JSON behind them.
func (w *Writer) Bytes() []byte { return w.buf }

// separate writes the comma before a value or a key, if one belongs there. It sees that by the last
// byte: no value ends with an opening bracket or a colon.
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

// Object starts an object.
func (w *Writer) Object() *Writer { return w.open('{') }

// EndObject ends an object.
func (w *Writer) EndObject() *Writer { return w.close('}') }

// Array starts an array.
func (w *Writer) Array() *Writer { return w.open('[') }

// EndArray ends an array.
func (w *Writer) EndArray() *Writer { return w.close(']') }

// Key starts a member.
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

// Text writes a text of bytes, as [AppendText] does.
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

// Raw writes a value that is JSON already, byte by byte. It writes null for an empty one.
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
