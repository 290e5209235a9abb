package audit

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// appended adds records to the end of a log as a user does who can write the folder and cannot sign.
// It returns the seq of the last record.
func appended(t *testing.T, dir string, records ...*Record) uint64 {
	t.Helper()
	list, err := segments(dir)
	if err != nil {
		t.Fatal(err)
	}
	path := list[len(list)-1].path
	end, err := readTail(path)
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	c := chain{end.last.seq, end.last.hash}
	for _, r := range records {
		data = c.append(data, r.appendJSON)
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return c.seq
}

// TestForgedDeletion: a record without a signature of its own does not explain that segments are
// missing, neither now nor after a later signature covers it.
func TestForgedDeletion(t *testing.T) {
	dir := filled(t)
	list, _ := segments(dir)
	first, err := firstLine(list[1].path)
	if err != nil {
		t.Fatal(err)
	}
	appended(t, dir, &Record{Kind: deletedKind, Detail: deletedDetail(list[0].n, first.seq-1, first.prev), Count: 1})
	if err := os.Remove(list[0].path); err != nil {
		t.Fatal(err)
	}
	for _, when := range []string{"before a start", "after a start"} {
		if r, err := Verify(dir, trusted(t)); err == nil || !strings.Contains(err.Error(), "no record tells that they were deleted") {
			t.Errorf("%s: %+v, %v", when, r, err)
		}
		openLog(t, Options{Dir: dir}).Close()
	}
}

// TestUnsignedTail: a start tells of records that no signature covered, in whichever segment the
// last signature is.
func TestUnsignedTail(t *testing.T) {
	dir := filled(t)
	before, err := Verify(dir, trusted(t))
	if err != nil {
		t.Fatal(err)
	}
	last := appended(t, dir, &Record{Kind: End, Outcome: "ok"}, &Record{Kind: signatureKind}, &Record{Kind: End, Outcome: "ok"})
	want := fmt.Sprintf("the records %d to %d had no signature", before.Last+1, last)
	other, _ := KeysFrom("another")
	for range 2 { // a new key begins a segment, and the crash is before its first signature
		w := &writer{opts: Options{Dir: dir, Keys: other}}
		notes, err := w.recover()
		if err != nil || len(notes) != 1 || notes[0].Detail[:len(want)] != want || w.signed != before.Signed {
			t.Fatalf("%v, %v, signed %d", notes, err, w.signed)
		}
		list, _ := segments(dir)
		c := w.at
		line := c.append(nil, func(dst []byte) []byte {
			return append(dst, fmt.Sprintf(`,"kind":"segment","log":%q,"segment":%d,"key":%q`, w.log, w.n+1, other.Public())...)
		})
		path := segmentPath(dir, w.n+1, list[len(list)-1].day)
		if err := os.WriteFile(path, line, 0o600); err != nil {
			t.Fatal(err)
		}
		want = fmt.Sprintf("the records %d to %d had no signature", before.Last+1, c.seq)
	}
}

// TestUnsignedTailIsNoted: the note of a start is in the log, and a verifier shows it once.
func TestUnsignedTailIsNoted(t *testing.T) {
	dir := filled(t)
	before, _ := Verify(dir, trusted(t))
	last := appended(t, dir, &Record{Kind: End, Outcome: "ok"})
	for range 2 {
		openLog(t, Options{Dir: dir}).Close()
	}
	r, err := Verify(dir, trusted(t))
	if err != nil || len(r.Notes) != 1 || !strings.Contains(r.Notes[0], fmt.Sprintf("the records %d to %d had no signature", before.Last+1, last)) {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestSignatureReplaced: a start tells that the signature which head names is another record now.
func TestSignatureReplaced(t *testing.T) {
	dir := filled(t)
	list, _ := segments(dir)
	path := list[len(list)-1].path
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.SplitAfter(data, []byte("\n"))
	if err := os.WriteFile(path, bytes.Join(lines[:len(lines)-3], nil), 0o600); err != nil {
		t.Fatal(err)
	}
	appended(t, dir, &Record{Kind: End}, &Record{Kind: End}, &Record{Kind: End})
	openLog(t, Options{Dir: dir}).Close()
	if r, err := Verify(dir, trusted(t)); err == nil || !strings.Contains(err.Error(), "is not the signature that the file head names") {
		t.Errorf("%s: %+v, %v", filepath.Base(path), r, err)
	}
}
