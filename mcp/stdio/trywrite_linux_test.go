package stdio

import (
	"bytes"
	"io"
	"os"
	"testing"
)

// A message goes into a pipe without waiting if the pipe has room for all of it. A message that does
// not fit leaves no byte there.
func TestWriteWithoutWaiting(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	s := NewStream(bytes.NewReader(nil), w, 100, nil)
	msg := bytes.Repeat([]byte("x"), 1000)
	n := 0
	for done := true; done; n++ {
		if done, err = s.WriteAll([][]byte{msg}, false); err != nil {
			t.Fatal(err)
		}
	}
	n-- // the last one did not fit
	if n < 4 {
		t.Fatalf("%d messages fitted", n)
	}
	if done, _ := s.WriteAll([][]byte{bytes.Repeat(msg, 5)}, false); done {
		t.Error("more than a pipe takes as a whole was written without waiting")
	}
	w.Close()
	if done, _ := s.WriteAll([][]byte{msg}, false); done {
		t.Error("a closed pipe was written")
	}
	got, err := io.ReadAll(r)
	if err != nil || len(got) != n*(len(msg)+1) || bytes.Count(got, []byte{'\n'}) != n {
		t.Errorf("%d messages arrived as %d bytes (%v)", n, len(got), err)
	}
}

// A file that is no pipe is written in the usual way: a write to a disk is not bounded.
func TestNoPipe(t *testing.T) {
	f, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if done, _ := NewStream(bytes.NewReader(nil), f, 100, nil).WriteAll([][]byte{[]byte("{}")}, false); done {
		t.Error("a file was written without waiting")
	}
}
