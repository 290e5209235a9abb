// Package runs makes runs of programs: it bounds them, gives their calls to the gateway, and keeps a
// journal of the calls, so that a program that failed goes on without making a call twice.
//
//	tool_run ─▶ Runner.Run ─▶ program.Pool ─▶ worker
//	                │ Host                      │ call, find, open
//	                ▼                           ▼
//	            Journal ◀─ answered before? ── host ──▶ Gateway: one call, as tool_execute makes it
//	            (store)  ◀─ "started" ─ admitted ─────────────────▶ server
//	                     ◀─ result ────────────────────────────────┘
//
// The journal of a call that writes is in the store before the call is sent, and its result before the
// program has it. So after any failure, of the program, the worker or the gateway, each call of the run
// is one of: not made, made with a known result, or of unknown outcome. A call that waits for a person is
// not made: if its gateway ends, a resumed run asks again.
//
// The package knows neither the catalog nor the steps of a call; the Gateway of a run does.
package runs
