package passthrough

import "bytes"

// eventData finds the data of server-sent events in pieces of a stream. Lines end in LF, CR or CRLF,
// and may be cut anywhere.
type eventData struct {
	add    func(p []byte) // takes a piece of an event's data
	finish func()         // ends the event

	mark  int    // read bytes of a byte order mark at the start; pastMark after it
	field []byte // the start of the line, up to maxField bytes
	begun bool   // the line is data, of which the field is read
	other bool   // the line is something else
	cr    bool   // the last byte was CR
	some  bool   // the event has data
}

const (
	dataField = "data:"
	byteMark  = "\xef\xbb\xbf"
	pastMark  = -1
)

// feed takes a piece of the stream.
func (s *eventData) feed(p []byte) {
	for s.mark != pastMark && len(p) > 0 {
		if p[0] != byteMark[s.mark] {
			s.part([]byte(byteMark[:s.mark]))
			s.mark = pastMark
			break
		}
		if p, s.mark = p[1:], s.mark+1; s.mark == len(byteMark) {
			s.mark = pastMark
		}
	}
	for len(p) > 0 {
		if s.cr {
			if s.cr = false; p[0] == '\n' { // the second half of CRLF
				p = p[1:]
				continue
			}
		}
		n := bytes.IndexByte(p, '\n')
		line := p
		if n >= 0 {
			line = p[:n]
		}
		if cr := bytes.IndexByte(line, '\r'); cr >= 0 {
			n, line = cr, line[:cr]
		}
		s.part(line)
		if n < 0 {
			return
		}
		s.cr = p[n] == '\r'
		s.endLine()
		p = p[n+1:]
	}
}

// part takes a part of a line.
func (s *eventData) part(line []byte) {
	if !s.begun && !s.other {
		n := min(len(line), len(dataField)-len(s.field))
		s.field = append(s.field, line[:n]...)
		line = line[n:]
		switch {
		case string(s.field) == dataField:
			s.begun = true
			if s.some {
				s.add([]byte{'\n'})
			}
		case len(s.field) == len(dataField):
			s.other = true
		}
	}
	if s.begun && len(line) > 0 {
		s.some = true
		s.add(line)
	}
}

// endLine ends a line, and a blank one ends the event.
func (s *eventData) endLine() {
	blank := len(s.field) == 0
	s.field, s.begun, s.other = s.field[:0], false, false
	if blank && s.some {
		s.finish()
		s.some = false
	}
}
