package passthrough

import "bytes"

// lineScanner watches a stream of server-sent events. Lines end in LF, CR or CRLF, and may be cut
// anywhere.
type lineScanner struct {
	ids   bool // a line started with "id:"
	blank bool // the last byte ended a blank line, and so an event

	at int  // matched bytes of "id:" at the start of the current line; none: no match
	cr bool // the last byte was CR: an LF belongs to it
	in bool // the current line has a byte
}

const (
	idField   = "id:"
	elsewhere = -1
)

func (s *lineScanner) scan(p []byte) {
	for len(p) > 0 {
		if s.in && s.at == elsewhere {
			n := bytes.IndexByte(p, '\n')
			upto := p
			if n >= 0 {
				upto = p[:n]
			}
			if cr := bytes.IndexByte(upto, '\r'); cr >= 0 {
				n = cr
			}
			if n < 0 {
				s.cr, s.blank = false, false
				return
			}
			p = p[n:]
		}
		c := p[0]
		p = p[1:]
		switch {
		case c == '\n' && s.cr: // the second half of CRLF: the line has ended already
			s.cr = false
		case c == '\n' || c == '\r':
			s.blank = !s.in
			s.in, s.at, s.cr = false, 0, c == '\r'
		default:
			if s.at >= 0 && c == idField[s.at] {
				if s.at++; s.at == len(idField) {
					s.ids, s.at = true, elsewhere
				}
			} else {
				s.at = elsewhere
			}
			s.in, s.cr, s.blank = true, false, false
		}
	}
}
