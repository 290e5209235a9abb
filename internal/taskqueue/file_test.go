package taskqueue

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

var rounds = flag.Int("rounds", 5, "how often TestKill kills a process")

// crashDir names the variable that makes the test binary the child of TestKill.
const crashDir = "TASKQUEUE_CRASH_DIR"

// crashChild accepts tasks as fast as it can and says which, until it is
// killed. Each task leaves a file, so that running twice shows.
func crashChild() {
	dir := os.Getenv(crashDir)
	store, err := OpenFile(filepath.Join(dir, "store"), FileOptions{})
	if err != nil {
		panic(err)
	}
	q, err := New(Options{Store: store, Max: 1 << 20, Concurrency: 4, RetainCount: 1 << 20, Run: crashRun(dir)})
	if err != nil {
		panic(err)
	}
	var mu sync.Mutex
	for n := range 16 {
		go func() {
			for i := 0; ; i++ {
				task, err := q.Submit(Spec{Owner: "ann", Payload: json.RawMessage(fmt.Sprintf(`"%d-%d"`, n, i))})
				if err != nil {
					panic(err)
				}
				mu.Lock()
				fmt.Println(task.ID)
				mu.Unlock()
			}
		}()
	}
	select {}
}

func crashRun(dir string) RunFunc {
	return func(_ context.Context, j *Job) (json.RawMessage, error) {
		name := filepath.Join(dir, "ran", j.ID)
		f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return nil, fmt.Errorf("ran twice: %w", err)
		}
		return j.Payload, f.Close()
	}
}

// No task that was accepted is lost by kill -9 at any moment, and none runs
// twice. -rounds=100 for the whole proof.
func TestKill(t *testing.T) {
	for round := range *rounds {
		dir := t.TempDir()
		if err := os.Mkdir(filepath.Join(dir, "ran"), 0o700); err != nil {
			t.Fatal(err)
		}
		child := exec.Command(os.Args[0])
		child.Env = append(os.Environ(), crashDir+"="+dir)
		child.Stderr = os.Stderr
		out, err := child.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		var accepted []string
		lines := bufio.NewScanner(out)
		if lines.Scan() {
			accepted = append(accepted, lines.Text())
		}
		// A random moment after it has begun.
		kill := time.AfterFunc(time.Duration(rand.Int64N(int64(100*time.Millisecond))), func() { _ = child.Process.Kill() })
		for lines.Scan() {
			accepted = append(accepted, lines.Text())
		}
		kill.Stop()
		_ = child.Wait()
		if n := len(accepted); n > 0 && len(accepted[n-1]) != len(accepted[0]) {
			accepted = accepted[:n-1] // killed while it wrote the line
		}

		store, err := OpenFile(filepath.Join(dir, "store"), FileOptions{NoSync: true})
		if err != nil {
			t.Fatal(err)
		}
		q := newQueue(t, Options{Store: store, Max: 1 << 20, Concurrency: 4, RetainCount: 1 << 20, Run: crashRun(dir)})
		count := map[State]int{}
		for _, id := range accepted {
			got, err := q.Wait(t.Context(), "ann", id)
			if err != nil {
				t.Fatalf("round %d: of %d accepted tasks, %s is lost: %v", round, len(accepted), id, err)
			}
			count[got.State]++
			if got.State == Failed && got.Reason != ReasonInterrupted {
				t.Errorf("round %d: %s: %s", round, id, got.Error)
			}
			if got.State == Completed && len(got.Result) == 0 {
				t.Errorf("round %d: %s lost its result", round, id)
			}
		}
		if count[Failed] > 4 || count[Failed]+count[Completed] != len(accepted) {
			t.Errorf("round %d: %d accepted, ended as %v; at most 4 ran when it was killed", round, len(accepted), count)
		}
		if err := q.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

func fileWith(t *testing.T, n int) (dir string) {
	t.Helper()
	dir = t.TempDir()
	s, err := OpenFile(dir, FileOptions{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		if err := s.Save(Record{ID: fmt.Sprint("t", i), Seq: int64(i), State: Pending}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

// Whatever the crash left at the end of the log, what stands before it is
// there and the log goes on.
func TestTornLog(t *testing.T) {
	dir := fileWith(t, 3)
	whole, err := os.ReadFile(filepath.Join(dir, logName))
	if err != nil {
		t.Fatal(err)
	}
	entry := (len(whole) - len(magic)) / 3
	flipped := append([]byte(nil), whole...)
	flipped[len(flipped)-5] ^= 1
	for name, c := range map[string]struct {
		log  []byte
		want int
	}{
		"whole":             {whole, 3},
		"empty":             {nil, 0},
		"part of the magic": {whole[:3], 0},
		"only the magic":    {whole[:len(magic)], 0},
		"in a header":       {whole[:len(magic)+2*entry+5], 2},
		"in a body":         {whole[:len(whole)-1], 2},
		"a flipped bit":     {flipped, 2},
		"zeros":             {append(append([]byte(nil), whole...), make([]byte, 4096)...), 3},
		"a huge length":     {append(append([]byte(nil), whole...), 0xff, 0xff, 0xff, 0xff, 1, 2, 3, 4, 'S'), 3},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, logName), c.log, 0o600); err != nil {
				t.Fatal(err)
			}
			for again := range 2 {
				s, err := OpenFile(dir, FileOptions{NoSync: true})
				if err != nil {
					t.Fatal(err)
				}
				all, err := s.Load()
				if err != nil || len(all) != c.want+again {
					t.Errorf("loaded %d records, %v; want %d", len(all), err, c.want+again)
				}
				if err := s.Save(Record{ID: "new", Seq: 99}); err != nil {
					t.Fatal(err)
				}
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
	if err := os.WriteFile(filepath.Join(dir, logName), []byte("something else"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenFile(dir, FileOptions{}); err == nil || !strings.Contains(err.Error(), "no task log") {
		t.Errorf("another file: %v", err)
	}
}

func TestOneProcess(t *testing.T) {
	dir := t.TempDir()
	s, err := OpenFile(dir, FileOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := OpenFile(dir, FileOptions{}); err == nil || !strings.Contains(err.Error(), "another process") {
		t.Errorf("opened twice: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Save(Record{ID: "x"}); err == nil {
		t.Error("saved after Close")
	}
}

// The log does not grow with the number of tasks there were.
func TestCompaction(t *testing.T) {
	dir := t.TempDir()
	s, err := OpenFile(dir, FileOptions{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	payload := json.RawMessage(`"` + strings.Repeat("x", 10_000) + `"`)
	if err := s.Save(Record{ID: "kept", Seq: 1, Payload: payload}); err != nil {
		t.Fatal(err)
	}
	for i := range 5000 {
		r := Record{ID: fmt.Sprint(i), Seq: int64(i), Payload: payload}
		if err := s.Save(r); err != nil {
			t.Fatal(err)
		}
		if i%10 != 0 || i < 4500 {
			if err := s.Remove(r.ID); err != nil {
				t.Fatal(err)
			}
		}
	}
	info, err := os.Stat(filepath.Join(dir, logName))
	if err != nil || info.Size() > 2*compactMin {
		t.Errorf("the log has %d bytes, %v", info.Size(), err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s, err = OpenFile(dir, FileOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	all, err := s.Load()
	if err != nil || len(all) != 51 {
		t.Errorf("loaded %d, %v", len(all), err)
	}
	for _, r := range all {
		if string(r.Payload) != string(payload) {
			t.Errorf("%s lost its payload", r.ID)
		}
	}
}

// A disk that fails is told to who waits, and what was accepted before stays.
func TestDiskFails(t *testing.T) {
	dir := t.TempDir()
	s, err := OpenFile(dir, FileOptions{})
	if err != nil {
		t.Fatal(err)
	}
	q := newQueue(t, Options{Store: s, Run: echo})
	if _, err := q.Submit(Spec{}); err != nil {
		t.Fatal(err)
	}
	s.disk.Lock()
	s.f.Close()
	s.disk.Unlock()
	if _, err := q.Submit(Spec{}); err == nil {
		t.Error("accepted although it could not be saved")
	}
	if got := q.Status().Queued; got != 0 {
		t.Errorf("%d wait", got)
	}
}

// An end that cannot be saved is not told as success: after a restart the task would
// be interrupted and its result gone. One that failed on its own still says why.
func TestEndCannotBeSaved(t *testing.T) {
	for name, c := range map[string]struct {
		run    func(context.Context, *Job) (json.RawMessage, error)
		reason Reason
		text   string
	}{
		"result": {echo, ReasonUnsaved, "could not be saved"},
		"error":  {func(context.Context, *Job) (json.RawMessage, error) { return nil, errors.New("boom") }, ReasonError, "boom"},
		"tool's own error": {func(context.Context, *Job) (json.RawMessage, error) {
			return json.RawMessage(`{"isError":true}`), errors.New("boom")
		}, ReasonUnsaved, "could not be saved"},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := OpenFile(t.TempDir(), FileOptions{})
			if err != nil {
				t.Fatal(err)
			}
			q := newQueue(t, Options{Store: s, Run: func(ctx context.Context, j *Job) (json.RawMessage, error) {
				s.disk.Lock()
				s.f.Close()
				s.disk.Unlock()
				return c.run(ctx, j)
			}})
			task, err := q.Submit(Spec{Payload: json.RawMessage(`1`)})
			if err != nil {
				t.Fatal(err)
			}
			if task, err = q.Wait(t.Context(), "", task.ID); err != nil {
				t.Fatal(err)
			}
			if task.State != Failed || task.Reason != c.reason || task.Result != nil || !strings.Contains(task.Error, c.text) {
				t.Errorf("%+v", task)
			}
		})
	}
}
