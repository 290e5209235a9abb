package table

import (
	"bytes"
	"fmt"
	"io"
	"strconv"

	"github.com/weir-mcp/weir/internal/json/rawjson"
)

// Rows are collected in chunks before they are written. The first chunk is small, so that a reader
// gets data soon. Later ones are large, because one large write costs far less than many small
// ones.
const (
	firstChunk = 64 << 10
	maxChunk   = 1 << 20
)

// emitter writes rows of a view as JSON. It is not safe for concurrent use.
type emitter struct {
	v     View
	seg   *segment
	plans []*emission // by shape
	loose map[string]int
	outs  []out
	vals  [][]byte
	keys  [][]byte
	// write, if set, writes the bytes before a part of a row and the part, and returns what is appended to next.
	write func(before, part []byte) []byte
}

// put appends a part of a row. If the row becomes long, it is written.
func (e *emitter) put(dst, part []byte) []byte {
	if e.write != nil && len(dst)+len(part) > 2*maxChunk {
		return e.write(dst, part)
	}
	return append(dst, part...)
}

// emission is the plan for writing rows of one shape.
type emission struct {
	whole bool // copy the row unchanged
	parts []part
	fixed int // total size of the literals of a row
}

// part is one output field: a literal and the position of its value.
type part struct {
	lit   string // for example ,"key":
	field int32  // or rowNumber
}

func newEmitter(v View) *emitter {
	return &emitter{v: v, plans: make([]*emission, len(v.t.shapes))}
}

func (e *emitter) plan(n uint32) *emission {
	if p := e.plans[n]; p != nil {
		return p
	}
	t, s := e.v.t, e.v.t.shapes[n]
	p := &emission{}
	fields := s.lastFields()
	add := func(key string, f int32) {
		lit := "," + key + ":"
		p.parts = append(p.parts, part{lit, f})
		p.fixed += len(lit)
	}
	if e.v.outs == nil {
		p.whole = !s.twice && !t.renamed
		seen := make(map[int32]bool, len(s.cols))
		for f, col := range s.cols {
			if seen[col] {
				continue
			}
			seen[col] = true
			key := s.keys[f]
			if t.keys != nil && t.keys[col] != nil {
				key = string(t.keys[col])
			}
			add(key, fields[col])
		}
	} else {
		for _, o := range e.v.outs {
			for k := len(o.cols) - 1; k >= 0; k-- {
				if o.cols[k] == rowNumber {
					add(string(o.key), rowNumber)
					break
				}
				if f, ok := fields[int32(o.cols[k])]; ok {
					key := s.keys[f]
					if o.key != nil {
						key = string(o.key)
					}
					add(key, f)
					break
				}
			}
		}
	}
	e.plans[n] = p
	return p
}

// begin starts a row. bare reports that the row has no field yet.
func (e *emitter) begin(dst []byte, row int) (_ []byte, bare bool) {
	dst = append(dst, '{')
	if !e.v.id {
		return dst, true
	}
	dst = append(dst, `"`+RowID+`":`...)
	return strconv.AppendInt(dst, int64(row), 10), false
}

// append appends row number row of the table.
func (e *emitter) append(dst []byte, row int) []byte {
	t := e.v.t
	e.seg = t.locate(e.seg, row)
	rec := e.seg.record(row)
	n := rec.shape()
	if n == noShape {
		return e.appendLoose(dst, row, e.seg.Data[rec.begin(0):rec.end()])
	}
	p, s := e.plan(n), t.shapes[n]
	if p.whole {
		begin, end := t.bounds(rec)
		if !e.v.id {
			return e.put(dst, e.seg.Data[begin:end])
		}
		dst, _ = e.begin(dst, row)
		dst = append(dst, ',')
		return e.put(dst, e.seg.Data[begin+1:end])
	}
	dst, bare := e.begin(dst, row)
	for _, part := range p.parts {
		lit := part.lit
		if bare {
			lit, bare = lit[1:], false
		}
		dst = append(dst, lit...)
		if part.field == rowNumber {
			dst = strconv.AppendInt(dst, int64(row), 10)
			continue
		}
		begin, end := s.value(rec, int(part.field))
		dst = e.put(dst, e.seg.Data[begin:end])
	}
	return append(dst, '}')
}

// appendLoose writes a row without a shape.
func (e *emitter) appendLoose(dst []byte, row int, data []byte) []byte {
	t := e.v.t
	if e.loose == nil {
		e.loose = map[string]int{}
		e.outs = e.v.all()
		for col := range t.columns {
			e.loose[t.original(col)] = col
		}
		e.vals, e.keys = make([][]byte, len(t.columns)), make([][]byte, len(t.columns))
	}
	var order []int
	for f := range looseFields(data) {
		col := e.loose[f.name]
		if e.vals[col] == nil {
			order = append(order, col)
		}
		e.vals[col], e.keys[col] = f.value, f.key
	}
	dst, bare := e.begin(dst, row)
	add := func(key, value []byte) {
		if !bare {
			dst = append(dst, ',')
		}
		bare = false
		dst = append(append(dst, key...), ':')
		dst = e.put(dst, value)
	}
	if e.v.outs == nil {
		for _, col := range order {
			key := e.keys[col]
			if t.keys != nil && t.keys[col] != nil {
				key = t.keys[col]
			}
			add(key, e.vals[col])
		}
	} else {
		for _, o := range e.outs {
			for k := len(o.cols) - 1; k >= 0; k-- {
				if o.cols[k] == rowNumber {
					add(o.key, strconv.AppendInt(nil, int64(row), 10))
					break
				}
				if v := e.vals[o.cols[k]]; v != nil {
					key := e.keys[o.cols[k]]
					if o.key != nil {
						key = o.key
					}
					add(key, v)
					break
				}
			}
		}
	}
	for _, col := range order {
		e.vals[col], e.keys[col] = nil, nil
	}
	return append(dst, '}')
}

// size returns the length of the row that append would write.
func (e *emitter) size(row int) int {
	t := e.v.t
	e.seg = t.locate(e.seg, row)
	rec := e.seg.record(row)
	n := rec.shape()
	if n == noShape {
		return len(e.appendLoose(nil, row, e.seg.Data[rec.begin(0):rec.end()]))
	}
	id := 0
	if e.v.id {
		id = len(`"`+RowID+`":`) + digits(row)
	}
	p, s := e.plan(n), t.shapes[n]
	if p.whole {
		begin, end := t.bounds(rec)
		if e.v.id {
			id++ // the comma
		}
		return end - begin + id
	}
	size := 2 + id + p.fixed
	if id == 0 && len(p.parts) > 0 {
		size-- // no comma before the first
	}
	for _, part := range p.parts {
		if part.field == rowNumber {
			size += digits(row)
			continue
		}
		begin, end := s.value(rec, int(part.field))
		size += end - begin
	}
	return size
}

func digits(n int) int {
	d := 1
	for ; n >= 10; n /= 10 {
		d++
	}
	return d
}

// AppendRow appends row i of the view as a JSON object.
func (v View) AppendRow(dst []byte, i int) []byte { return v.Appender()(dst, i) }

// Appender returns a function like AppendRow for many rows. It is not safe for concurrent use.
func (v View) Appender() func(dst []byte, i int) []byte {
	e := newEmitter(v)
	return func(dst []byte, i int) []byte { return e.append(dst, v.rowAt(i)) }
}

// AppendJSON appends the view as a JSON array of objects.
func (v View) AppendJSON(dst []byte) []byte {
	w := &appender{dst}
	// An appender does not fail.
	_, _ = v.WriteJSON(w)
	return w.b
}

type appender struct{ b []byte }

func (a *appender) Write(p []byte) (int, error) { a.b = append(a.b, p...); return len(p), nil }

// JSONSize returns the number of bytes that WriteJSON writes. It reads the index, not the values.
func (v View) JSONSize() int64 {
	size := int64(2)
	n := v.Len()
	if n == 0 {
		return size
	}
	e := newEmitter(v)
	for i := range n {
		size += int64(e.size(v.rowAt(i)))
	}
	return size + int64(n-1)
}

// WriteJSON writes the view as a JSON array of objects and returns the number of bytes written. It
// copies values without decoding them.
func (v View) WriteJSON(w io.Writer) (int64, error) {
	return v.write(w, "[", ",", "]", false)
}

// WriteNDJSON writes the view as one JSON object per line. It removes line breaks between the
// tokens of a value, the only place where JSON allows them.
func (v View) WriteNDJSON(w io.Writer) (int64, error) {
	return v.write(w, "", "\n", "\n", true)
}

func (v View) write(w io.Writer, open, between, closing string, oneLine bool) (int64, error) {
	n := v.Len()
	if n == 0 {
		if oneLine {
			return 0, nil
		}
		k, err := io.WriteString(w, open+closing)
		return int64(k), wrapWrite(err)
	}
	out := counter{w: w}
	chunk := firstChunk
	buf := make([]byte, 0, chunk+4<<10)
	buf = append(buf, open...)
	e := newEmitter(v)
	start := 0 // of the row in buf
	var failed error
	flush := func(p []byte) {
		if failed == nil {
			_, failed = out.Write(p)
		}
	}
	e.write = func(before, part []byte) []byte {
		if oneLine {
			before = rawjson.StripNewlines(before[:start], before[start:])
		}
		start = 0
		flush(before)
		for oneLine && len(part) > 0 {
			n := min(len(part), maxChunk)
			before = rawjson.StripNewlines(before[:0], part[:n])
			part = part[n:]
			flush(before)
		}
		flush(part)
		return before[:0]
	}
	for i := range n {
		if i > 0 {
			buf = append(buf, between...)
		}
		start = len(buf)
		buf = e.append(buf, v.rowAt(i))
		if oneLine {
			if row := buf[start:]; bytes.IndexByte(row, '\n') >= 0 || bytes.IndexByte(row, '\r') >= 0 {
				buf = rawjson.StripNewlines(buf[:start], row)
			}
		}
		if failed != nil {
			return out.n, wrapWrite(failed)
		}
		if len(buf) >= chunk {
			if _, err := out.Write(buf); err != nil {
				return out.n, wrapWrite(err)
			}
			chunk = min(2*chunk, maxChunk)
			if buf = buf[:0]; cap(buf) < chunk { // the last chunk
				buf = make([]byte, 0, chunk+4<<10)
			}
		}
	}
	_, err := out.Write(append(buf, closing...))
	return out.n, wrapWrite(err)
}

func wrapWrite(err error) error {
	if err != nil {
		return fmt.Errorf("writing rows: %w", err)
	}
	return nil
}
