// Package tasks makes a gateway the client of its servers' tasks, so that an agent that knows no
// tasks gets every result:
//
//	tool_execute ─▶ … ─▶ Step ─▶ server: {taskId}
//	                      │ waits, passes on progress, questions and their answers
//	                      ├─ the task ends within Options.Wait ─▶ result, as of any call
//	                      ├─ the agent cancels the call         ─▶ tasks/cancel
//	                      └─ otherwise                          ─▶ handle, kept in the Registry
//	tool_view(handle) ─▶ Resume ─▶ waits again ─▶ result, shaped as of any call
//	                                           └▶ handle and what the task does
//
// A waiting request polls the server. Between requests nothing runs: no goroutine, no connection
// and no timer belongs to a task, and the server keeps the result.
//
// An agent server may name its task in an ordinary result. The server is then asked whether it is one.
//
// The package knows the steps of a call and the two eras' tasks. It knows no meta-tool and no
// transport.
package tasks
