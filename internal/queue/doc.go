// Package queue runs tasks in order, a bounded number of them at a time.
//
//	Submit ─▶ saved ─▶ ┌─────────── waiting ───────────┐ ─▶ running ─▶ completed
//	Do ──────────────▶ │ first in, first out, in steps │       │  └──▶ failed
//	                   │ of priority; at most Max      │       └─────▶ cancelled
//	                   └───────────────────────────────┘
//
// [Queue.Do] is for a caller who waits: nothing of the call outlives it. [Queue.Submit] returns at
// once. The task has an id, and only its owner may read and cancel it, and is stored for a
// while after its end: bounded in number, bytes and age. Both use the same queue, and a task's time
// limit counts from the start of its execution.
//
// Tasks are documents of a store, changed by compare-and-set: [OpenMemory] keeps them within the
// process, [OpenFile] on disk, and processes with the same Options.Group share them in a store that all
// reach. After a crash, waiting tasks wait again and results stay readable. A task that was running
// fails: its effects are unknown, so it is not run twice, unless it is idempotent.
//
// The package knows neither protocols nor the work of a task: PlaceOptions.Run does the work.
package queue
