package table

import (
	"bytes"
	"errors"
	"fmt"
	"io"
)

// csvField is a field of comma-separated values. The standard library's reader does not report
// whether a field was quoted, which distinguishes an empty string from null, or whether a line
// break in a field was CR LF.
type csvField struct {
	text   []byte
	quoted bool
}

// csvReader reads comma-separated values (RFC 4180). A line ends with LF, CR LF or CR. Empty lines
// are skipped. Bytes inside quotes are kept unchanged. All lines must have as many fields as the
// first.
type csvReader struct {
	data  []byte
	at    int
	line  int // of data[at], from 1
	width int // fields of the first line; 0 before it
	buf   []csvField
}

var (
	errBareQuote = errors.New("a quote in a field that does not begin with one")
	errOpenQuote = errors.New("a quoted field is not closed")
	errPastQuote = errors.New("text behind the closing quote of a field")
)

// next returns the fields of the next line, valid until the next call, or io.EOF.
func (r *csvReader) next() ([]csvField, error) {
	for r.at < len(r.data) && (r.data[r.at] == '\n' || r.data[r.at] == '\r') {
		r.breakLine()
	}
	if r.at >= len(r.data) {
		return nil, io.EOF
	}
	line := r.line
	r.buf = r.buf[:0]
	for {
		field, err := r.field()
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", line, err)
		}
		r.buf = append(r.buf, field)
		if r.at < len(r.data) && r.data[r.at] == ',' {
			r.at++
			continue
		}
		break
	}
	r.breakLine()
	if r.width == 0 {
		r.width = len(r.buf)
	}
	if len(r.buf) != r.width {
		return nil, fmt.Errorf("line %d: %d fields, and the first line has %d", line, len(r.buf), r.width)
	}
	return r.buf, nil
}

// breakLine skips one line break, if there is one.
func (r *csvReader) breakLine() {
	if r.at >= len(r.data) {
		return
	}
	if r.data[r.at] == '\r' && r.at+1 < len(r.data) && r.data[r.at+1] == '\n' {
		r.at++
	}
	r.at++
	r.line++
}

// field reads a field up to the next comma or line break.
func (r *csvReader) field() (csvField, error) {
	if r.at < len(r.data) && r.data[r.at] == '"' {
		return r.quoted()
	}
	rest := r.data[r.at:]
	end := bytes.IndexAny(rest, ",\r\n\"")
	if end < 0 {
		end = len(rest)
	} else if rest[end] == '"' {
		return csvField{}, errBareQuote
	}
	r.at += end
	return csvField{text: rest[:end:end]}, nil
}

func (r *csvReader) quoted() (csvField, error) {
	r.at++
	var text []byte
	for {
		rest := r.data[r.at:]
		end := bytes.IndexByte(rest, '"')
		if end < 0 {
			return csvField{}, errOpenQuote
		}
		r.line += lineBreaks(rest[:end])
		r.at += end + 1
		if r.at < len(r.data) && r.data[r.at] == '"' { // a doubled quote is one quote
			text = append(text, rest[:end+1]...)
			r.at++
			continue
		}
		if text == nil {
			text = rest[:end:end]
		} else {
			text = append(text, rest[:end]...)
		}
		if r.at < len(r.data) && r.data[r.at] != ',' && r.data[r.at] != '\n' && r.data[r.at] != '\r' {
			return csvField{}, errPastQuote
		}
		return csvField{text: text, quoted: true}, nil
	}
}

// lineBreaks counts LF, CR LF and CR.
func lineBreaks(b []byte) int {
	return bytes.Count(b, []byte{'\n'}) + bytes.Count(b, []byte{'\r'}) - bytes.Count(b, []byte("\r\n"))
}
