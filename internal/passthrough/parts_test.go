package passthrough

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/observe/trace"
)

func TestNameOf(t *testing.T) {
	for path, want := range map[string]string{
		"/mcps/files/mcp": "files", "/mcp/files/mcp": "files", "/mcps/files/mcp/": "files", "/mcps/a%20b/mcp": "a b", "/mcps/a%2Fb/mcp": "a/b", "/mcps/mcp/mcp": "mcp",
		"/mcps/files": "", "/mcps//mcp": "", "/mcps/files/mcp/x": "", "/mcps/a/b/mcp": "", "/x/files/mcp": "", "/mcp": "", "/mcps/files/tasks": "", "/mcps/files/task": "files", "/mcps/files/getTaskStatus": "files", "/getTaskStatus?agent=files": "files", "/getTaskStatus?taskId=1": "",
	} {
		u, err := url.Parse("http://weir" + path)
		if err != nil {
			t.Fatal(err)
		}
		if got, _, ok := nameOf(u); got != want || ok != (want != "") {
			t.Errorf("%s: %q, %v", path, got, ok)
		}
	}
}

// owned is owns without what it says of sharing.
func owned(b *bindings, k bindingKey) bool {
	ok, _ := b.owns(k)
	return ok
}

func TestBindingsAreBounded(t *testing.T) {
	var replaced []string
	b := newBindings(3, func(_ int, principal string) { replaced = append(replaced, principal) })
	key := func(principal string, n int) bindingKey { return bindingKey{"u", principal, fmt.Sprint(n)} }
	for n := range 3 {
		b.add(key("alice", n))
	}
	if !owned(b, key("alice", 0)) || owned(b, key("bob", 0)) || owned(b, bindingKey{"v", "alice", "0"}) {
		t.Error("a session belongs to its principal and its upstream")
	}
	b.add(key("alice", 3)) // the first was used just now, so the second goes
	for n, want := range []bool{true, false, true, true} {
		if owned(b, key("alice", n)) != want {
			t.Errorf("alice's %d: %v", n, !want)
		}
	}
	for n := range 3 {
		b.add(key("bob", n)) // one of the principal who has most goes
	}
	if len(b.byKey) != 3 || fmt.Sprint(replaced) != "[alice alice alice bob]" {
		t.Errorf("%d sessions, and those of %v were replaced", len(b.byKey), replaced)
	}
	b.add(key("bob", 2))
	b.remove(key("bob", 2))
	b.remove(key("bob", 2))
	if owned(b, key("bob", 2)) {
		t.Error("it was removed")
	}
	for principal := range b.users {
		for n := range 4 {
			b.remove(key(principal, n))
		}
	}
	if len(b.users) != 0 || len(b.byKey) != 0 {
		t.Errorf("something is left: %v %v", b.users, b.byKey)
	}
}

// scanWhole is lineScanner by other means: it looks at the whole text.
func scanWhole(text string) (ids, blank bool) {
	// Lines end in CRLF, CR or LF.
	text = strings.ReplaceAll(text, "\r\n", "\n")
	text = strings.ReplaceAll(text, "\r", "\n")
	for line := range strings.SplitSeq(text, "\n") {
		ids = ids || strings.HasPrefix(line, "id:")
	}
	return ids, strings.HasSuffix(text, "\n\n") || text == "\n"
}

func FuzzLineScanner(f *testing.F) {
	for _, s := range []string{"data: a\n\n", "id: 1\r\ndata: x\r\n\r\n", "i", "\rid:\r\r", "x id: 1\n", "data: id:\n\nid:7\n", "\n", "a\r\n\r", ": c\n\n\n"} {
		f.Add(s, 3)
		f.Add(s, 1)
	}
	f.Fuzz(func(t *testing.T, text string, piece int) {
		piece = max(1, piece%7)
		var s lineScanner
		for rest := text; rest != ""; {
			n := min(piece, len(rest))
			s.scan([]byte(rest[:n]))
			rest = rest[n:]
		}
		if ids, blank := scanWhole(text); s.ids != ids || s.blank != blank {
			t.Errorf("%q: ids %v, blank %v; want %v, %v", text, s.ids, s.blank, ids, blank)
		}
	})
}

// TestBodyIsHeld: a buffer is not used again before its last reader was closed.
func TestBodyIsHeld(t *testing.T) {
	b := getBody()
	b.buf = append(b.buf[:0], bytes.Repeat([]byte("x"), smallBody+1)...)
	r := b.reader(trace.Edit{})
	b.release()
	if b.refs.Load() != 1 {
		t.Errorf("%d holders", b.refs.Load())
	}
	if n, err := io.CopyN(io.Discard, r, 10); n != 10 || err != nil {
		t.Error(n, err)
	}
	for range 2 {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
	if b.refs.Load() != 0 {
		t.Errorf("%d holders after Close", b.refs.Load())
	}
	if _, err := r.Read(make([]byte, 1)); !errors.Is(err, http.ErrBodyReadAfterClose) {
		t.Errorf("read after Close: %v", err)
	}
}

// TestBodyIsEdited: an edit joins a body as it is read or written, large or small.
func TestBodyIsEdited(t *testing.T) {
	for _, n := range []int{10, smallBody + 1, 1 << 20} {
		b := getBody()
		b.buf = append(b.buf[:0], bytes.Repeat([]byte("x"), n)...)
		for _, edit := range []trace.Edit{{}, {At: 3, End: 5, Text: []byte("abc")}, {At: n, End: n, Text: []byte("end")}, {Text: []byte("begin")}} {
			want := edit.Append(nil, b.buf)
			if len(want) != n+edit.Grows() {
				t.Fatalf("%d bytes, want %d", len(want), n+edit.Grows())
			}
			read, written := b.reader(edit), b.reader(edit)
			got, err := io.ReadAll(read)
			if err != nil || !bytes.Equal(got, want) {
				t.Errorf("read: %d bytes, want %d, %v", len(got), len(want), err)
			}
			var w bytes.Buffer
			if m, err := io.Copy(&w, written); err != nil || m != int64(len(want)) || !bytes.Equal(w.Bytes(), want) {
				t.Errorf("written: %d bytes, want %d, %v", m, len(want), err)
			}
			read.Close()
			written.Close()
		}
		b.release()
	}
}

func TestLoneSessionsAreBounded(t *testing.T) {
	var l principalSessions
	first := l.of("p0")
	if l.of("p0") != first {
		t.Error("two sessions for one principal")
	}
	for n := range maxSessionless {
		l.of(fmt.Sprint("p", n+1))
	}
	select {
	case <-first.Done():
	default:
		t.Error("the oldest is still there")
	}
	last := l.of("last")
	l.close()
	<-last.Done()
	<-l.of("late").Done()
}

// An upstream that gives everybody the same session id has several clients in
// it, each with ids of its own.
func TestBindingsKnowSharedSessions(t *testing.T) {
	b := newBindings(10, func(int, string) {})
	k := bindingKey{"up", "alice", "the one"}
	for _, want := range []bool{false, true} {
		b.add(k)
		if ok, shared := b.owns(k); !ok || shared != want {
			t.Errorf("owned %v, shared %v, want %v", ok, shared, want)
		}
	}
}
