package queue_test

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/weir-mcp/weir/internal/queue"
)

// A queue with one place to run: one caller waits for its result, another
// comes back for it.
func Example() {
	ctx := context.Background()
	q, err := queue.New(queue.Options{Docs: queue.OpenMemory(), PlaceOptions: queue.PlaceOptions{
		Run: func(_ context.Context, job *queue.Job) (json.RawMessage, error) {
			fmt.Fprintln(job, "greeting", job.Owner)
			return json.RawMessage(`"hello ` + job.Owner + `"`), nil
		},
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer q.Close(ctx)

	result, err := q.Do(ctx, queue.Spec{Owner: "ann", Name: "greet"})
	fmt.Println(string(result), err)

	task, err := q.Submit(queue.Spec{Owner: "bob", Name: "greet"})
	if err != nil {
		fmt.Println(err)
		return
	}
	task, err = q.Wait(ctx, "bob", task.ID)
	fmt.Println(task.State, string(task.Result), err)
	fmt.Print(task.LogTail)
	_, err = q.Get("ann", task.ID)
	fmt.Println(err)
	// Output:
	// "hello ann" <nil>
	// completed "hello bob" <nil>
	// greeting bob
	// no such task
}
