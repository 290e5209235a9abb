package queue

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"hash/crc32"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-mcp/weir/internal/store"
	"github.com/weir-mcp/weir/internal/store/filestore"
	"github.com/weir-mcp/weir/internal/testkit/storetest"
)

var rounds = flag.Int("rounds", 5, "how often TestKill kills a process")

// crashDir names the variable that makes the test binary the child of TestKill.
const crashDir = "TASKQUEUE_CRASH_DIR"

// crashChild accepts tasks as fast as it can and says which, until it is
// killed. Each task leaves a file, so that running twice shows.
func crashChild() {
	dir := os.Getenv(crashDir)
	docs, err := OpenFile(filepath.Join(dir, "store"), slog.New(slog.DiscardHandler))
	if err != nil {
		panic(err)
	}
	q, err := New(crashQueue(dir, docs))
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

func crashQueue(dir string, s *filestore.Store) Options {
	return Options{Docs: s, Close: s.Close, RetainCount: -1, PlaceOptions: PlaceOptions{Max: 1 << 20, Concurrency: 4, Run: crashRun(dir)}}
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

		docs, err := OpenFile(filepath.Join(dir, "store"), slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		q := openQueue(t, crashQueue(dir, docs))
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

// entry returns an entry of the log of an older build.
func entry(kind byte, body []byte) []byte {
	body = append([]byte{kind}, body...)
	head := binary.LittleEndian.AppendUint32(nil, uint32(len(body)))
	head = binary.LittleEndian.AppendUint32(head, crc32.Checksum(body, crc32.MakeTable(crc32.Castagnoli)))
	return append(head, body...)
}

// olderLog returns the log of an older build with three tasks that wait, an ended one and one that was
// removed.
func olderLog(t *testing.T) []byte {
	log := []byte(logMagic)
	now := time.Now()
	for _, r := range []record{
		{ID: "t2", Seq: 2, State: Pending}, {ID: "gone", Seq: 3, State: Pending}, {ID: "t1", Seq: 1, State: Pending},
		{ID: "done", Seq: 4, State: Completed, Ended: now, Retain: time.Hour, Result: json.RawMessage(`{"n":12345678901234567890}`)},
		{ID: "old", Seq: 5, State: Completed, Ended: now.Add(-2 * time.Hour), Retain: time.Hour},
		{ID: "t2", Seq: 2, State: Pending, Payload: ms(2)},
	} {
		r.Owner, r.Retain, r.Created = "ann", time.Hour, now.Add(time.Duration(r.Seq))
		body, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		log = append(log, entry('S', body)...)
	}
	log = append(log, entry('D', []byte("gone"))...)
	body, _ := json.Marshal(record{ID: "t3", Seq: 6, Owner: "ann", State: Running, Retain: time.Hour, Starts: 1})
	return append(log, entry('S', body)...)
}

// TestImport: the log of an older build is imported once, also if a crash has torn its end.
func TestImport(t *testing.T) {
	whole := olderLog(t)
	flipped := bytes.Clone(whole)
	flipped[len(flipped)-5] ^= 1
	for name, c := range map[string]struct {
		log  []byte
		want string
	}{
		"whole":             {whole, "t1 t2 t3 done"},
		"empty":             {nil, ""},
		"part of the magic": {whole[:3], ""},
		"only the magic":    {whole[:len(logMagic)], ""},
		"in a body":         {whole[:len(whole)-1], "t1 t2 done"},
		"a flipped bit":     {flipped, "t1 t2 done"},
		"zeros":             {append(bytes.Clone(whole), make([]byte, 4096)...), "t1 t2 t3 done"},
		"a huge length":     {append(bytes.Clone(whole), 0xff, 0xff, 0xff, 0xff, 1, 2, 3, 4, 'S'), "t1 t2 t3 done"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, logName), c.log, 0o600); err != nil {
				t.Fatal(err)
			}
			var ran []string
			for range 2 {
				docs, err := OpenFile(dir, slog.New(slog.DiscardHandler))
				if err != nil {
					t.Fatal(err)
				}
				if len(ran) == 0 {
					var ids []string
					stop, err := docs.Follow("t."+own+".", func(d store.Doc) { ids = append(ids, strings.TrimPrefix(d.Key, "t."+own+".")) })
					if err != nil {
						t.Fatal(err)
					}
					stop()
					if got := strings.Join(ids, " "); got != c.want {
						t.Errorf("imported %q, want %q", got, c.want)
					}
				}
				q := openQueue(t, Options{Docs: docs, Close: docs.Close, PlaceOptions: PlaceOptions{Run: func(_ context.Context, j *Job) (json.RawMessage, error) {
					ran = append(ran, j.ID)
					return j.Payload, nil
				}}})
				for id := range strings.FieldsSeq(c.want) {
					want := Completed
					if id == "t3" {
						want = Failed
					}
					if task, err := q.Wait(t.Context(), "ann", id); err != nil || task.State != want || id == "done" && string(task.Result) != `{"n":12345678901234567890}` {
						t.Errorf("%s: %+v, %v", id, task, err)
					}
				}
				if err := q.Close(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			if got := strings.Join(ran, " "); c.want != "" && got != "t1 t2" {
				t.Errorf("ran %q", got)
			}
			if kept, err := os.ReadFile(filepath.Join(dir, importedLog)); err != nil || !bytes.Equal(kept, c.log) {
				t.Errorf("the log was not kept: %v", err)
			}
		})
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, logName), []byte("something else"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenFile(dir, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), "no task log") {
		t.Errorf("another file: %v", err)
	}
}

// TestOneProcess: a folder has one process at a time, also where the other one is an older build.
func TestOneProcess(t *testing.T) {
	dir := t.TempDir()
	s, err := OpenFile(dir, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := os.WriteFile(filepath.Join(dir, logName), olderLog(t), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := OpenFile(dir, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), "another weir") {
			t.Errorf("opened twice: %v", err)
		}
		if err := os.Remove(filepath.Join(dir, logName)); err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
	}
}

// TestWritableFolder: a folder in which other users may write is taken, such as the volume of a container.
func TestWritableFolder(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, logName), olderLog(t), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := OpenFile(dir, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
}

// TestLargeResults: in a store of one process, a result may be much larger than a document of a cluster.
func TestLargeResults(t *testing.T) {
	docs, err := OpenFile(t.TempDir(), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	for _, docs := range []store.Docs{docs, OpenMemory()} {
		q := openQueue(t, Options{Docs: docs, PlaceOptions: PlaceOptions{Run: echo}})
		payload := json.RawMessage(`"` + strings.Repeat("x", 8<<20) + `"`)
		task, err := q.Submit(Spec{Payload: payload})
		if err != nil {
			t.Fatal(err)
		}
		if task, err = q.Wait(t.Context(), "", task.ID); err != nil || task.State != Completed || !bytes.Equal(task.Result, payload) {
			t.Errorf("%s, %s, %d bytes, %v", task.State, task.Error, len(task.Result), err)
		}
	}
	docs.Close()
}

// TestStoreFails: a store that fails is told to the caller, and the task is not in the line.
func TestStoreFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		faults := &storetest.Faults{Docs: OpenMemory()}
		q := openQueue(t, Options{Docs: faults, PlaceOptions: PlaceOptions{Run: echo}})
		if _, err := q.Submit(Spec{}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		faults.Cut(true)
		if _, err := q.Submit(Spec{}); !errors.Is(err, ErrStore) {
			t.Errorf("accepted although it could not be saved: %v", err)
		}
		if got := q.Status().Queued; got != 0 || len(q.tasks) != 1 {
			t.Errorf("%d wait, %d are known", got, len(q.tasks))
		}
	})
}

// TestClaimFails: while the store does not answer, tasks wait and calls run. The tasks run when it is back.
func TestClaimFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		faults := &storetest.Faults{Docs: OpenMemory()}
		q := openQueue(t, Options{Docs: faults, PlaceOptions: PlaceOptions{Run: sleeper}})
		var calls sync.WaitGroup
		calls.Go(func() { _, _ = q.Do(t.Context(), Spec{Payload: ms(1000)}) })
		synctest.Wait()
		task, err := q.Submit(Spec{Payload: ms(1)})
		if err != nil {
			t.Fatal(err)
		}
		faults.Cut(true)
		calls.Wait()
		for range 60 {
			began := time.Now()
			if _, err := q.Do(t.Context(), Spec{Payload: ms(1)}); err != nil || time.Since(began) > claimLimit+time.Second {
				t.Fatalf("a call took %v: %v", time.Since(began), err)
			}
			time.Sleep(time.Second)
		}
		faults.Cut(false)
		if task, err := q.Wait(t.Context(), "", task.ID); err != nil || task.State != Completed {
			t.Errorf("%+v, %v", task, err)
		}
	})
}

// TestEndCannotBeSaved: an end that cannot be saved is not told as success: after a restart the task would
// be interrupted and its result gone. One that failed on its own still says why. A store that is back in
// time has the result.
func TestEndCannotBeSaved(t *testing.T) {
	for name, c := range map[string]struct {
		run    func(context.Context, *Job) (json.RawMessage, error)
		back   time.Duration
		state  State
		reason Reason
		text   string
	}{
		"result": {echo, time.Hour, Failed, ReasonUnsaved, "could not be saved"},
		"error":  {func(context.Context, *Job) (json.RawMessage, error) { return nil, errors.New("boom") }, time.Hour, Failed, ReasonError, "boom"},
		"tool's own error": {func(context.Context, *Job) (json.RawMessage, error) {
			return json.RawMessage(`{"isError":true}`), errors.New("boom")
		}, time.Hour, Failed, ReasonUnsaved, "could not be saved"},
		"back in time": {echo, 5 * time.Second, Completed, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				faults := &storetest.Faults{Docs: OpenMemory()}
				q := openQueue(t, Options{Docs: faults, PlaceOptions: PlaceOptions{Run: func(ctx context.Context, j *Job) (json.RawMessage, error) {
					faults.Cut(true)
					time.AfterFunc(c.back, func() { faults.Cut(false) })
					return c.run(ctx, j)
				}}})
				task, err := q.Submit(Spec{Payload: json.RawMessage(`1`)})
				if err != nil {
					t.Fatal(err)
				}
				began := time.Now()
				task, err = q.Wait(t.Context(), "", task.ID)
				if errors.Is(err, ErrStore) { // while it is cut
					time.Sleep(time.Minute)
					task, err = q.Get("", task.ID)
				}
				if err != nil || task.State != c.state || task.Reason != c.reason || c.state == Failed && task.Result != nil || !strings.Contains(task.Error, c.text) {
					t.Errorf("%+v, %v", task, err)
				}
				if took := time.Since(began); took > saveLimit+2*time.Second {
					t.Errorf("it took %v", took)
				}
				time.Sleep(2 * time.Hour) // the store has the end as well
			})
		})
	}
}
