// Package taskqueue runs tasks in order, a bounded number of them at a time.
//
//	Submit ─▶ saved ─▶ ┌─────────── waiting ───────────┐ ─▶ running ─▶ completed
//	Do ──────────────▶ │ first in, first out, in steps │       │  └──▶ failed
//	                   │ of priority; at most Max      │       └─────▶ cancelled
//	                   └───────────────────────────────┘
//
// [Queue.Do] is for a caller who waits: nothing of the call outlives it. [Queue.Submit] returns at
// once. The task has an id and an owner, who alone may read and cancel it, and is stored for a
// while after its end: bounded in number, bytes and age. Both use the same queue, and a task's time
// limit counts from the start of its execution.
//
// A [Store] keeps submitted tasks across a restart: [NewMemory] within the process, [OpenFile] on
// disk. After a crash, waiting tasks wait again and results stay readable. A task that was running
// fails: its effects are unknown, so it is not run twice, unless it is idempotent.
//
// [Shared] is a queue of several processes: its tasks are documents of a store, changed by
// compare-and-set. If a process is gone, the others end the tasks that it ran.
//
// The package knows no protocol and not what a task does: Options.Run does it.
package taskqueue
