package streamable

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

func TestWireHeaderValue(t *testing.T) {
	tests := []struct{ name, plain, wire string }{
		{"empty", "", ""},
		{"plain", "tools:search", "tools:search"},
		{"inner space", "two words", "two words"},
		{"leading space", " a", "=?base64?IGE=?="},
		{"trailing space", "a ", "=?base64?YSA=?="},
		{"tab", "a\tb", "=?base64?YQli?="},
		{"newline", "a\r\nX-Evil: 1", "=?base64?YQ0KWC1FdmlsOiAx?="},
		{"unicode", "größe", "=?base64?Z3LDtsOfZQ==?="},
		{"delete", "a\x7f", "=?base64?YX8=?="},
		{"sentinel", "=?base64?YQ==?=", "=?base64?PT9iYXNlNjQ/WVE9PT89?="},
		{"half a sentinel", "=?base64?", "=?base64?"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := encodeHeaderValue(tt.plain); got != tt.wire {
				t.Errorf("encoded %q, want %q", got, tt.wire)
			}
			if got, err := decodeHeaderValue(tt.wire); got != tt.plain || err != nil {
				t.Errorf("decoded %q, %v, want %q", got, err, tt.plain)
			}
		})
	}
	if _, err := decodeHeaderValue("=?base64?%%?="); !errors.Is(err, errHeaderEncoding) {
		t.Errorf("err = %v, want errHeaderEncoding", err)
	}
}

func TestWireSessionID(t *testing.T) {
	for id, want := range map[string]bool{
		"": false, "abc-1": true, "a b": false, "a\n": false, "é": false,
		strings.Repeat("x", 1024): true, strings.Repeat("x", 1025): false,
	} {
		if got := ValidSessionID(id); got != want {
			t.Errorf("ValidSessionID(%.20q) = %v", id, got)
		}
	}
}

// readers gives the same text in the pieces that a network might make of it.
var readers = map[string]func(string) io.Reader{
	"whole":    func(s string) io.Reader { return strings.NewReader(s) },
	"bytes":    func(s string) io.Reader { return iotest.OneByteReader(strings.NewReader(s)) },
	"data+EOF": func(s string) io.Reader { return iotest.DataErrReader(strings.NewReader(s)) },
}

func readAll(r *EventReader) (out []string, err error) {
	for {
		ev, err := r.Next()
		if err != nil {
			return out, err
		}
		out = append(out, show(ev))
	}
}

func show(ev Event) string {
	s := fmt.Sprintf("%s|%s|%q", ev.Name, ev.ID, ev.Data)
	if ev.Data == nil {
		s = fmt.Sprintf("%s|%s|nil", ev.Name, ev.ID)
	}
	if ev.HasRetry {
		s += "|" + ev.Retry.String()
	}
	if ev.Truncated {
		s += "|truncated"
	}
	return s
}

func TestWireEventReader(t *testing.T) {
	tests := []struct {
		name, in string
		want     []string
	}{
		{"LF", "data: a\n\ndata: b\n\n", []string{`||"a"`, `||"b"`}},
		{"CR", "data: a\r\rdata: b\r\r", []string{`||"a"`, `||"b"`}},
		{"CRLF", "data: a\r\n\r\ndata: b\r\n\r\n", []string{`||"a"`, `||"b"`}},
		{"mixed", "data: a\r\n\ndata: b\r\r\ndata: c\n\r", []string{`||"a"`, `||"b"`, `||"c"`}},
		{"all fields", "event: message\nid: 7_1\nretry: 250\ndata: {}\n\n", []string{`message|7_1|"{}"|250ms`}},
		{"several data lines", "data: {\ndata:  \"a\":1\ndata\ndata: }\n\n", []string{`||"{\n \"a\":1\n\n}"`}},
		{"no space after the colon", "data:a\nid:1\n\n", []string{`|1|"a"`}},
		{"comments", ": hi\n\n:\ndata: a\n: mid\n\n", []string{`||"a"`}},
		{"unknown fields and a line without colon", "foo: 1\nbar\ndata: a\n\n", []string{`||"a"`}},
		{"priming event", "id: 1\ndata:\n\n", []string{`|1|""`}},
		{"an id alone", "id: 1\n\n", []string{`|1|nil`}},
		{"retry alone", "retry: 0\n\n", []string{`||nil|0s`}},
		{"a bad retry", "retry: 1s\ndata: a\n\n", []string{`||"a"`}},
		{"a huge retry is an hour", "retry: 99999999999999999999\n\n", []string{`||nil|1h0m0s`}},
		{"NUL in an id", "id: a\x00b\ndata: a\n\n", []string{`||"a"`}},
		{"byte order mark", "\xef\xbb\xbfdata: a\n\n", []string{`||"a"`}},
		{"half a byte order mark", "\xef\xbbdata: a\n\ndata: b\n\n", []string{`||"b"`}},
		{"an event type alone is no event", "event: x\n\ndata: a\n\n", []string{`||"a"`}},
		{"blank lines", "\n\n\r\n\rdata: a\n\n\n", []string{`||"a"`}},
		{"no blank line at the end", "data: a\n", []string{`||"a"|truncated`}},
		{"no line end at the end", "data: a\n\ndata: b", []string{`||"a"`, `||"b"|truncated`}},
		{"nothing", "", nil},
	}
	for _, tt := range tests {
		for how, reader := range readers {
			t.Run(tt.name+"/"+how, func(t *testing.T) {
				got, err := readAll(NewEventReader(reader(tt.in), 1<<10))
				if err != io.EOF {
					t.Errorf("err = %v, want io.EOF", err)
				}
				if strings.Join(got, "\n") != strings.Join(tt.want, "\n") {
					t.Errorf("got %q, want %q", got, tt.want)
				}
			})
		}
	}
}

func TestWireEventReaderIsBounded(t *testing.T) {
	const bound = 64 << 10
	big := strings.Repeat("x", bound)
	for name, in := range map[string]string{
		"one line":       "data: " + big + "\n\n",
		"many lines":     strings.Repeat("data: "+big[:1000]+"\n", 100) + "\n",
		"a comment":      ": " + big + "\n",
		"an endless one": "data: " + big + big,
	} {
		t.Run(name, func(t *testing.T) {
			r := NewEventReader(strings.NewReader(in), bound)
			for range 2 {
				if _, err := r.Next(); !errors.Is(err, ErrEventTooLarge) {
					t.Errorf("err = %v, want ErrEventTooLarge", err)
				}
			}
		})
	}
	// Comments between two events do not add up.
	in := strings.Repeat(": "+big[:1000]+"\n", 1000) + "data: a\n\n"
	if ev, err := NewEventReader(strings.NewReader(in), bound).Next(); err != nil || string(ev.Data) != "a" {
		t.Errorf("got %q, %v", ev.Data, err)
	}
}

func TestWireEventReaderErrors(t *testing.T) {
	broken := errors.New("reset")
	r := NewEventReader(io.MultiReader(strings.NewReader("data: a\n\ndata: b\n"), iotest.ErrReader(broken)), 1<<10)
	if ev, err := r.Next(); err != nil || string(ev.Data) != "a" {
		t.Fatalf("got %q, %v", ev.Data, err)
	}
	if _, err := r.Next(); err != broken {
		t.Errorf("err = %v, want the reader's own; half an event of a broken stream must not count", err)
	}
	if _, err := NewEventReader(idle{}, 10).Next(); err != io.ErrNoProgress {
		t.Errorf("err = %v, want io.ErrNoProgress", err)
	}
}

type idle struct{}

func (idle) Read([]byte) (int, error) { return 0, nil }

func TestWireAppendEvent(t *testing.T) {
	tests := []struct {
		name string
		ev   Event
		want string
	}{
		{"data", Event{Data: []byte(`{"a":1}`)}, "data: {\"a\":1}\n\n"},
		{"priming", Event{ID: "3", Data: []byte{}, HasRetry: true, Retry: time.Second}, "id: 3\nretry: 1000\ndata: \n\n"},
		{"raw newlines", Event{Data: []byte("{\r\n1\r2\n3\n}")}, "data: {\ndata: 1\ndata: 2\ndata: 3\ndata: }\n\n"},
		{"nothing breaks out", Event{ID: "1\ndata: x", Name: "a\r\nb", Data: []byte("x")}, "event: ab\nid: 1data: x\ndata: x\n\n"},
	}
	for _, tt := range tests {
		if got := string(AppendEvent(nil, tt.ev)); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
	if got := string(AppendComment(nil, "a\nb")); got != ": ab\n\n" {
		t.Errorf("comment %q", got)
	}
}

func FuzzWireEvent(f *testing.F) {
	f.Add("1_2", "message", []byte(`{"jsonrpc":"2.0"}`), 100, true)
	f.Add("", "", []byte("a\r\n\rb\n"), 0, false)
	f.Add("x\ny", "\r", []byte{}, -4, true)
	f.Fuzz(func(t *testing.T, id, name string, data []byte, retry int, has bool) {
		in := Event{ID: id, Name: name, Data: append([]byte{}, data...)}
		if has {
			in.HasRetry, in.Retry = true, time.Duration(retry%1e6)*time.Millisecond
		}
		wire := AppendComment(nil, name)
		wire = AppendEvent(wire, in)
		n := len(wire)
		wire = AppendEvent(wire, Event{Data: []byte("next")})

		clean := strings.NewReplacer("\r", "", "\n", "", "\x00", "")
		want := Event{ID: clean.Replace(id), Name: clean.Replace(name), HasRetry: has, Retry: max(0, in.Retry)}
		want.Data = bytes.ReplaceAll(in.Data, []byte("\r\n"), []byte("\n"))
		want.Data = bytes.ReplaceAll(want.Data, []byte("\r"), []byte("\n"))
		if want.Data == nil {
			want.Data = []byte{}
		}
		for how, reader := range readers {
			r := NewEventReader(reader(string(wire)), 1<<20)
			got, err := r.Next()
			if err != nil || show(got) != show(want) {
				t.Fatalf("%s: got %s, %v, want %s from %q", how, show(got), err, show(want), wire[:n])
			}
			if got, err = r.Next(); err != nil || string(got.Data) != "next" {
				t.Fatalf("%s: the next event: %s, %v", how, show(got), err)
			}
		}
	})
}

func FuzzWireEventReader(f *testing.F) {
	f.Add([]byte("data: a\r\n\r\nid: 1\rdata:b\n\n"))
	f.Fuzz(func(t *testing.T, in []byte) {
		want, err := readAll(NewEventReader(bytes.NewReader(in), 1<<10))
		got, err2 := readAll(NewEventReader(iotest.OneByteReader(bytes.NewReader(in)), 1<<10))
		if err != err2 || strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Fatalf("the pieces matter: %q %v, %q %v", want, err, got, err2)
		}
	})
}

// TestLargeEventIsWrittenAsAppended: an event that is written without a copy has the bytes of AppendEvent.
func TestLargeEventIsWrittenAsAppended(t *testing.T) {
	long := strings.Repeat("x", maxTakeBytes+1)
	for _, data := range []string{long, long + "\n" + long, "short\r\n" + long + "\rshort\n", strings.Repeat("line\n", maxTakeBytes), long + "\n\n"} {
		e := Event{Name: "message", ID: "g-1", Data: []byte(data)}
		w := httptest.NewRecorder()
		o := &eventWriter{w: w, rc: http.NewResponseController(w), timeout: time.Second, buf: []byte(": before\n\n")}
		if !o.put(e) || !o.flush() {
			t.Fatal("the client is gone")
		}
		if want := AppendEvent([]byte(": before\n\n"), e); !bytes.Equal(w.Body.Bytes(), want) {
			t.Errorf("%d bytes that differ from the %d of AppendEvent", w.Body.Len(), len(want))
		}
	}
}
