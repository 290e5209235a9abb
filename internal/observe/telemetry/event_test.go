package telemetry

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"
)

var moment = time.Date(2026, 7, 28, 12, 0, 0, 5_000_000, time.FixedZone("CEST", 7200))

func TestEventJSON(t *testing.T) {
	for _, tt := range []struct {
		event Event
		want  string
	}{
		{Event{Time: moment, Name: "x"}, `{"time":"2026-07-28T10:00:00.005Z","event":"x"}`},
		{Event{Time: moment, Name: ExecuteCompleted, Session: "0123", Principal: "an\"n", MetaTool: "tool_execute", ToolID: "a:b@1", Upstream: "a", Duration: 1500 * time.Microsecond, Attempts: 2, Counted: true, TokensRead: 3, TokensRaw: 4},
			`{"time":"2026-07-28T10:00:00.005Z","event":"execute.completed","session":"0123","principal":"an\"n","meta_tool":"tool_execute","tool_id":"a:b@1","upstream":"a","duration_ms":1.5,"attempts":2,"tokens_read":3,"tokens_raw":4}`},
		{Event{Time: moment, Name: ExecuteFailed, MetaTool: "tool_execute", Code: "RATE_LIMITED", Scope: "tool_execute/minute", IsError: true, DryRun: true},
			`{"time":"2026-07-28T10:00:00.005Z","event":"execute.failed","meta_tool":"tool_execute","duration_ms":0,"code":"RATE_LIMITED","is_error":true,"dry_run":true,"scope":"tool_execute/minute"}`},
		{Event{Time: moment, Name: ExecuteCompleted, Client: "an\"agent", MetaTool: "tool_execute", Decision: "approved", Rule: "policy.rules[2]"},
			`{"time":"2026-07-28T10:00:00.005Z","event":"execute.completed","client":"an\"agent","meta_tool":"tool_execute","duration_ms":0,"decision":"approved","rule":"policy.rules[2]"}`},
		{Event{Time: moment, Name: CatalogRefresh, Upstream: "a", Tools: 3, Hash: "ff", Findings: 1, Detail: "one\nline"},
			`{"time":"2026-07-28T10:00:00.005Z","event":"catalog.refresh","upstream":"a","tools":3,"resources":0,"prompts":0,"findings":1,"hash":"ff","detail":"one\nline"}`},
	} {
		got := tt.event.AppendJSON(nil)
		if string(got) != tt.want || !json.Valid(got) {
			t.Errorf("%s\nwant %s", got, tt.want)
		}
	}
}

func TestSessionTag(t *testing.T) {
	if a, b := SessionTag("secret"), SessionTag("secret2"); a == b || len(a) != 12 || strings.Contains(a, "secret") || a != SessionTag("secret") {
		t.Errorf("%s, %s", a, b)
	}
}

func TestFan(t *testing.T) {
	if Fan() != nil || Fan(nil, nil) != nil {
		t.Error("nobody listens, and there is a function")
	}
	var got []string
	sink := func(name string) func(Event) { return func(e Event) { got = append(got, name+e.Name) } }
	Fan(nil, sink("a"))(Event{Name: "1"})
	Fan(sink("a"), nil, sink("b"))(Event{Name: "2"})
	if want := []string{"a1", "a2", "b2"}; !reflect.DeepEqual(got, want) {
		t.Errorf("%q", got)
	}
}

func TestEventLogWritesWholeLines(t *testing.T) {
	var buf bytes.Buffer
	l := NewEventLog(&buf, nil)
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			for range 20 {
				l.Write(Event{Time: moment, Name: "x", Detail: strings.Repeat("y", 500)})
			}
		})
	}
	all.Wait()
	lines := strings.Split(strings.TrimSuffix(buf.String(), "\n"), "\n")
	if len(lines) != 1000 {
		t.Fatalf("%d lines", len(lines))
	}
	for _, line := range lines {
		if !json.Valid([]byte(line)) {
			t.Fatalf("%q is no JSON", line)
		}
	}
}

func TestOpenEventLogAppends(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events.jsonl")
	for range 2 {
		l, err := OpenEventLog(path, nil)
		if err != nil {
			t.Fatal(err)
		}
		l.Write(Event{Time: moment, Name: "x"})
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		l.Write(Event{Name: "late"}) // is dropped
		if err := l.Close(); !errors.Is(err, errClosed) {
			t.Errorf("a second Close: %v", err)
		}
	}
	data, err := os.ReadFile(path)
	if err != nil || strings.Count(string(data), "\n") != 2 || strings.Contains(string(data), "late") {
		t.Errorf("%q, %v", data, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("others may read it: %v, %v", info.Mode(), err)
	}
	if _, err := OpenEventLog(filepath.Join(path, "x"), nil); err == nil || !strings.Contains(err.Error(), "event log") {
		t.Errorf("%v", err)
	}
}

// full is a disk without room.
type full struct{ err error }

func (f *full) Write(p []byte) (int, error) { return len(p), f.err }

func TestEventLogTellsAFailureOnce(t *testing.T) {
	disk := &full{errors.New("no space left")}
	var told []string
	l := NewEventLog(disk, func(err error) { told = append(told, err.Error()) })
	for range 3 {
		l.Write(Event{Name: "x"})
	}
	disk.err = nil
	l.Write(Event{Name: "x"})
	disk.err = errors.New("again")
	l.Write(Event{Name: "x"})
	if want := []string{"no space left", "again"}; !reflect.DeepEqual(told, want) {
		t.Errorf("%q", told)
	}
}
