package clustertest_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/queue"
	"github.com/weir-mcp/weir/internal/store/natsstore"
	"github.com/weir-mcp/weir/internal/testkit/clustertest"
)

// asReplica is the argument that makes this binary a replica that shares tasks. The URL of the store and the
// file with the starts follow.
const asReplica = "clustertest-replica"

// openReplica joins the replicas of a queue. Each start of a task is a line of a file.
func openReplica(ctx context.Context, url, starts string) (*queue.Queue, error) {
	conn, err := natsstore.Dial(ctx, natsstore.Servers{URLs: []string{url}})
	if err != nil {
		return nil, err
	}
	docs, _, err := natsstore.Open(ctx, conn, natsstore.Options{Bucket: "tasks", MaxBytes: 32 << 20, Patience: 20 * time.Second})
	if err != nil {
		conn.Close()
		return nil, err
	}
	return queue.New(queue.Options{
		Docs: docs, Group: "g", Close: func() { docs.Close(); conn.Close() },
		PlaceOptions: queue.PlaceOptions{Concurrency: 2, Run: func(ctx context.Context, j *queue.Job) (json.RawMessage, error) {
			f, err := os.OpenFile(starts, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
			if err == nil {
				_, err = fmt.Fprintln(f, j.ID)
				_ = f.Close()
			}
			sleep(ctx, 50*time.Millisecond)
			return json.RawMessage(`"done"`), err
		}},
	})
}

// serveReplica makes this process a replica if it was started as one, and does not return then.
func serveReplica() {
	if len(os.Args) != 4 || os.Args[1] != asReplica {
		return
	}
	if _, err := openReplica(context.Background(), os.Args[2], os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println("ready")
	select {}
}

// TestSharedTasks: while replicas are killed, and the store once, each task whose submission was acknowledged
// is there and starts at most once. Those that ran at a killed replica end as interrupted.
func TestSharedTasks(t *testing.T) {
	c := clustertest.Start(t, clustertest.Options{Nodes: 1})
	url, starts := c.Nodes[0].StoreURL, filepath.Join(t.TempDir(), "starts")
	start := func() *exec.Cmd {
		cmd := exec.Command(os.Args[0], asReplica, url, starts)
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		if line, err := bufio.NewReader(out).ReadString('\n'); err != nil {
			t.Fatalf("a replica has not started: %q %v", line, err)
		}
		return cmd
	}
	kill := func(cmd *exec.Cmd) {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	replicas := []*exec.Cmd{start(), start()}
	defer func() {
		for _, cmd := range replicas {
			kill(cmd)
		}
	}()
	own, err := openReplica(t.Context(), url, starts)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		_ = own.Close(ctx)
	}()
	breaking, _ := lasts()
	kills, acknowledged := 0, []string{}
	began, next := time.Now(), time.Now().Add(500*time.Millisecond)
	for i := 0; time.Since(began) < max(breaking/2, 3*time.Second); i++ {
		if task, err := own.Submit(queue.Spec{Owner: "ann", Name: "work", Retain: time.Hour}); err == nil {
			acknowledged = append(acknowledged, task.ID)
		}
		time.Sleep(15 * time.Millisecond)
		if time.Now().Before(next) {
			continue
		}
		at := kills % len(replicas)
		kill(replicas[at])
		if kills++; kills == 2 {
			c.NATS.Kill()
			if err := c.NATS.Start(); err != nil {
				t.Fatal(err)
			}
		}
		replicas[at] = start()
		next = time.Now().Add(500 * time.Millisecond)
	}
	running, interrupted, done := 0, 0, 0
	for end := time.Now().Add(time.Minute); ; time.Sleep(200 * time.Millisecond) {
		running, interrupted, done = 0, 0, 0
		waiting := 0
		for _, id := range acknowledged {
			task, err := own.Get("ann", id)
			switch {
			case err != nil && time.Now().After(end):
				t.Errorf("%s was acknowledged, and: %v", id, err)
			case err != nil:
				waiting++
			case task.State == queue.Completed:
				done++
			case task.State == queue.Failed && task.Reason == queue.ReasonInterrupted:
				interrupted++
			case task.State == queue.Running:
				running++
			case task.State == queue.Pending:
				waiting++
			default:
				t.Errorf("%s: %s %s", id, task.State, task.Error)
			}
		}
		// Tasks of killed replicas run until the document of their holder ends, which takes 20 seconds.
		if waiting == 0 && (running == 0 || *chaosTime == 0 && running <= 2*kills) {
			break
		}
		if time.Now().After(end) {
			t.Errorf("%d tasks wait and %d run after a minute", waiting, running)
			break
		}
	}
	t.Logf("%d kills; of %d tasks %d are done, %d interrupted, %d at killed replicas", kills, len(acknowledged), done, interrupted, running)
	if interrupted+running > 2*kills+4 {
		t.Errorf("%d tasks were interrupted by %d kills", interrupted+running, kills)
	}
	text, err := os.ReadFile(starts)
	if err != nil {
		t.Fatal(err)
	}
	started := map[string]int{}
	for id := range strings.FieldsSeq(string(text)) {
		if started[id]++; started[id] > 1 {
			t.Errorf("%s started %d times", id, started[id])
		}
	}
	if len(acknowledged) == 0 || done == 0 {
		t.Error("no task was done")
	}
	for _, id := range acknowledged {
		if started[id] == 0 && interrupted+running == 0 {
			t.Errorf("%s never started", id)
		}
	}
}
