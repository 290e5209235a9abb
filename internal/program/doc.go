// Package program runs programs of agents: JavaScript that calls many tools in one turn. A program
// runs in a process of its own, the worker, which has no files, no network and no environment. It
// asks the Host for everything else.
//
//	Pool.Run ──start──▶ worker: a fresh engine ──▶ the program
//	                      │  call, find, open        │
//	Host ◀──ask────────── pipe ◀─────────────────────┤  up to Parallel at once
//	     ──answer───────▶ pipe ─────────────────────▶│
//	Outcome ◀──end─────── pipe ◀──────────── return ─┘  then the worker ends
//
// The Pool keeps some workers warm. Each runs one program and ends: nothing of one principal is left
// for the next. A worker that crashes, hangs or takes too much memory ends its own run only.
//
// The program is the body of an async function. Its language and the functions in its scope are in
// docs/programs.md.
//
// The package knows nothing of MCP, of tools and of their policy. It does not trust the worker: each
// frame of it is bounded and checked, and every request is the Host's to allow.
package program
