package audit

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/weir-mcp/weir/internal/json/rawjson"
)

// A Broken error names the first record of a log that is wrong.
type Broken struct {
	Seq  uint64 // the record, or the one that is missing
	File string
	Why  string
}

// Error implements error.
func (b *Broken) Error() string {
	return fmt.Sprintf("record %d (%s): %s", b.Seq, filepath.Base(b.File), b.Why)
}

// A Report is the result of Verify.
type Report struct {
	Log        string   `json:"log"`
	Records    uint64   `json:"records"`
	First      uint64   `json:"first"` // seq
	Last       uint64   `json:"last"`
	Signatures int      `json:"signatures"`
	Signed     uint64   `json:"signed"` // seq of the last signature
	Keys       []string `json:"keys"`   // ids of the keys that signed
	Trusted    bool     `json:"trusted"`
	// Notes are events that the log itself reports: lost records, cut ends, deleted segments.
	Notes []string `json:"notes,omitempty"`
	// Hash is the hash of the last record.
	Hash string `json:"hash"`
}

// VerifyOptions are facts that the caller knows of a log.
type VerifyOptions struct {
	// Keys are the only keys that may sign. Without any, the key that the log names counts.
	Keys []ed25519.PublicKey
	// Seq and Hash are of a record that the caller has seen before; Seq 0 means none.
	Seq  uint64
	Hash string
}

// Verify checks a log: a folder, or one file of it. The error is a *Broken for a log that was
// changed. Memory does not depend on the size of the log.
func Verify(path string, o VerifyOptions) (Report, error) {
	list, folder, err := sources(path)
	if err != nil {
		return Report{}, err
	}
	v := &verifier{opts: o, folder: folder}
	var newest head
	if folder {
		if newest, err = readHead(path); err != nil {
			return v.report, &Broken{File: filepath.Join(path, headName), Why: err.Error()}
		}
		if newest.Seq == 0 {
			return v.report, &Broken{File: filepath.Join(path, headName), Why: "the file head is missing, so that records could be missing at the end"}
		}
		v.newest = newest
	}
	for i, s := range list {
		if i > 0 && s.n != list[i-1].n+1 {
			return v.report, &Broken{v.at.seq + 1, s.path, fmt.Sprintf("segment %d is missing", list[i-1].n+1)}
		}
		if err := v.segment(s, i == len(list)-1); err != nil {
			return v.report, err
		}
	}
	return v.end()
}

// verifier checks records in order.
type verifier struct {
	opts    VerifyOptions
	folder  bool
	newest  head
	report  Report
	at      chain
	file    string
	key     ed25519.PublicKey
	started bool
	cut     *line      // the first record, if records before it are not here
	deleted []deletion // signed ones, the newest last
	// pending is a deletion in the record before, which counts if a signature follows.
	pending deletion
	headOK  bool
	// signedOK says that the signature which the head names was found.
	signedOK bool
	knownOK  bool
}

func (v *verifier) broken(seq uint64, format string, args ...any) error {
	return &Broken{seq, v.file, fmt.Sprintf(format, args...)}
}

// segment checks the records of a file.
func (v *verifier) segment(s segment, last bool) error {
	f, err := os.Open(s.path)
	if err != nil {
		return err
	}
	defer f.Close()
	return v.read(s, f, last)
}

// read checks the records of a file's contents.
func (v *verifier) read(s segment, r io.Reader, last bool) error {
	v.file = s.path
	in := newLines(r)
	var buf []byte
	var err error
	for first := true; ; first = false {
		buf, err = in.read(buf)
		switch {
		case errors.Is(err, io.EOF) && !first:
			return nil
		case errors.Is(err, io.EOF):
			return v.broken(v.at.seq+1, "the file is empty")
		case errors.Is(err, errTorn) && last && v.folder && v.at.seq >= v.newest.Seq:
			v.report.Notes = append(v.report.Notes, fmt.Sprintf("after record %d there is an unfinished line: it is being written, or weir ended", v.at.seq))
			return nil
		case err != nil:
			return v.broken(v.at.seq+1, "at byte %d: %v", in.offset, err)
		}
		l, err := readLine(buf)
		if err != nil {
			return v.broken(v.at.seq+1, "at byte %d: %v", in.offset, err)
		}
		if err := v.record(&l, s, first); err != nil {
			return err
		}
	}
}

// record checks a record against the one before it.
func (v *verifier) record(l *line, s segment, first bool) error {
	switch {
	case v.started:
		if l.seq != v.at.seq+1 {
			return v.broken(v.at.seq+1, "the record is missing: record %d follows", l.seq)
		}
		if l.prev != v.at.prev {
			return v.broken(l.seq, "it does not follow from the record before it")
		}
	case l.seq == 0:
		return v.broken(0, "there is no record 0")
	case l.seq == 1 && l.prev != digest{}:
		return v.broken(1, "the first record follows from another")
	case l.seq > 1:
		kept := *l
		kept.raw = nil
		v.cut = &kept
	}
	if first != (l.kind == segmentKind) {
		return v.broken(l.seq, "a file begins with the record of its segment, and has only one")
	}
	if !v.started {
		v.started, v.report.First = true, l.seq
	}
	v.at = chain{l.seq, l.hash}
	v.report.Records++
	v.report.Last = l.seq
	if v.newest.Seq == l.seq {
		if v.newest.Hash != l.hash.String() {
			return v.broken(l.seq, "it is not the record that the file head names")
		}
		v.headOK = true
	}
	if v.opts.Seq == l.seq && l.seq > 0 {
		if v.opts.Hash != l.hash.String() {
			return v.broken(l.seq, "its hash is not the one that was noted")
		}
		v.knownOK = true
	}
	return v.own(l, s)
}

// own checks the records that the log writes about itself.
func (v *verifier) own(l *line, s segment) error {
	member := func(key string) []byte { return rawjson.Get(l.raw, key) }
	deleted := v.pending
	v.pending = deletion{}
	switch l.kind {
	case segmentKind:
		log := rawjson.Text(member("log"))
		if v.report.Log != "" && log != v.report.Log || v.newest.Log != "" && log != v.newest.Log {
			return v.broken(l.seq, "the segment is of another log")
		}
		if n := string(member("segment")); s.n > 0 && n != strconv.Itoa(s.n) {
			return v.broken(l.seq, "the file is segment %s of the log under another name", n)
		}
		key, err := ParseKey(rawjson.Text(member("key")))
		if err != nil {
			return v.broken(l.seq, "it names no key")
		}
		if len(v.opts.Keys) > 0 && !slices.ContainsFunc(v.opts.Keys, func(k ed25519.PublicKey) bool { return k.Equal(key) }) {
			return v.broken(l.seq, "it is signed by the key %s, which is not the one given", keyID(key))
		}
		v.report.Log, v.key = log, key
	case signatureKind:
		if err := l.checkSignature(v.report.Log, v.key); err != nil {
			return v.broken(l.seq, "%v", err)
		}
		if v.folder && l.seq > v.newest.Signed && l.seq <= v.newest.Seq {
			return v.broken(l.seq, "it is a signature that the file head does not know")
		}
		v.signedOK = v.signedOK || l.seq == v.newest.Signed
		v.report.Signatures++
		v.report.Signed = l.seq
		if deleted.detail != "" {
			v.deleted = append(v.deleted, deleted)
			v.deleted = v.deleted[max(0, len(v.deleted)-16):]
		}
		if id := keyID(v.key); !slices.Contains(v.report.Keys, id) {
			v.report.Keys = append(v.report.Keys, id)
		}
	case deletedKind:
		// A user who cannot sign can append such a record, and wait until a later signature covers
		// it. The gateway signs at once.
		v.pending = deletion{rawjson.Text(member("detail")), rawjson.Text(member("outcome"))}
	case recoveredKind:
		if rawjson.Text(member("outcome")) == lostSigned {
			return v.broken(l.seq, "the log tells that %s", rawjson.Text(member("detail")))
		}
		v.note(fmt.Sprintf("record %d: %s", l.seq, rawjson.Text(member("detail"))))
	case droppedKind:
		v.note(fmt.Sprintf("record %d: %s records could not be written", l.seq, member("count")))
	}
	return nil
}

// maxNotes bounds the notes of a report.
const maxNotes = 100

func (v *verifier) note(text string) {
	if len(v.report.Notes) < maxNotes {
		v.report.Notes = append(v.report.Notes, text)
	}
}

// end checks the properties of the whole log.
func (v *verifier) end() (Report, error) {
	r := &v.report
	r.Hash, r.Trusted = v.at.prev.String(), len(v.opts.Keys) > 0
	switch {
	case v.folder && !v.headOK:
		return *r, v.broken(v.at.seq+1, "the records up to %d are missing, which the file head names", v.newest.Seq)
	case v.folder && !v.signedOK:
		return *r, v.broken(v.newest.Signed, "it is not the signature that the file head names")
	case v.opts.Seq > 0 && !v.knownOK:
		return *r, v.broken(v.opts.Seq, "the record that was noted is not here")
	case r.Signatures == 0:
		return *r, v.broken(v.at.seq, "the log has no signature")
	}
	if v.cut != nil && v.folder {
		if err := v.explained(); err != nil {
			return *r, err
		}
	} else if v.cut != nil {
		v.note(fmt.Sprintf("the file begins with record %d of the log; the folder shows whether the records before it were deleted by age or size", v.cut.seq))
	}
	if tail := r.Last - r.Signed; tail > 0 {
		v.note(fmt.Sprintf("the last %d records are not signed yet; the next signature covers them within a minute", tail))
	}
	return *r, nil
}

// explained checks that a record reports the deletion of the missing segments at the start of a
// folder.
func (v *verifier) explained() error {
	for _, d := range v.deleted {
		if d.explains(v.cut) {
			v.note(d.note(v.cut.seq - 1))
			return nil
		}
	}
	return &Broken{v.cut.seq - 1, v.file, "the records before the first file are missing, and no record tells that they were deleted: such a record counts if its signature follows"}
}
