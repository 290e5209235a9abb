package audit

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/weir-mcp/weir/internal/json/rawjson"
)

// unsignedTail finds the last signature of a log that is opened. It returns a record that reports
// the records behind it, nil if there are none: the next signature covers them, and a reader should
// know that no signature did while no process had the log open.
func (w *writer) unsignedTail(found []segment, known head) (*Record, error) {
	for i := len(found) - 1; i >= 0 && w.signed == 0; i-- {
		var err error
		if w.signed, err = lastSignature(found[i].path); err != nil {
			return nil, err
		}
	}
	note := &Record{Kind: recoveredKind, Count: int64(w.at.seq - w.signed)}
	switch {
	case known.Log == w.log && known.Signed > w.signed && known.Signed <= w.at.seq:
		note.Outcome = lostSigned
		note.Detail = fmt.Sprintf("record %d is not the signature that the file head names; the records %d to %d were found without one", known.Signed, w.signed+1, w.at.seq)
	case w.at.seq == w.signed:
		return nil, nil
	default:
		note.Detail = fmt.Sprintf("the records %d to %d had no signature at this start: weir had ended without one, and until now they could be changed", w.signed+1, w.at.seq)
	}
	return note, nil
}

var signatureMark = []byte(`"kind":"` + string(signatureKind) + `"`)

// lastSignature returns the seq of the last record of a segment that is a signature of the key which
// the segment names, 0 if it has none.
func lastSignature(path string) (seq uint64, err error) {
	first, err := firstLine(path)
	if err != nil {
		return 0, err
	}
	log := rawjson.Text(rawjson.Get(first.raw, "log"))
	key, err := ParseKey(rawjson.Text(rawjson.Get(first.raw, "key")))
	if err != nil {
		return 0, fmt.Errorf("%s: %w", path, err)
	}
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	var buf []byte
	for in := newLines(f); ; {
		switch buf, err = in.read(buf); {
		case errors.Is(err, io.EOF), errors.Is(err, errTorn):
			return seq, nil
		case err != nil:
			return 0, fmt.Errorf("%s at byte %d: %w", path, in.offset, err)
		case !bytes.Contains(buf, signatureMark):
			continue
		}
		if l, err := readLine(buf); err == nil && l.kind == signatureKind && l.checkSignature(log, key) == nil {
			seq = l.seq
		}
	}
}
