// Package taskqueue runs tasks in order, a bounded number of them at a time.
//
//	Submit ─▶ saved ─▶ ┌─────────── waiting ───────────┐ ─▶ running ─▶ completed
//	Do ──────────────▶ │ first in, first out, in steps │       │  └──▶ failed
//	                   │ of priority; at most Max      │       └─────▶ cancelled
//	                   └───────────────────────────────┘
//
// [Queue.Do] is for a caller who waits: nothing of the call outlives it.
// [Queue.Submit] returns at once; the task is found by its id, has an owner
// who alone may read and cancel it, and is kept for a while after its end:
// bounded in number, bytes and age. Both stand in the same line, and the time
// a task may take counts from the start of its execution.
//
// A [Store] keeps submitted tasks across a restart: [NewMemory] within the
// process, [OpenFile] on disk. After a crash, tasks that waited wait again,
// results stay readable, and a task that was running has failed: what it has
// done is not known, so it is not run twice.
//
// The package knows no protocol and not what a task does: Options.Run does it.
package taskqueue
