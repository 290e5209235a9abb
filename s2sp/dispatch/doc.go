// Package dispatch keeps the bodies of sync results away from a model. It works between an agent's
// model and its tools:
//
//	tool ─▶ {"abstract": […], "body": […]} ─▶ OnToolResult ─▶ {"abstract": […], "resource_url": "ddi://TOKEN"} ─▶ model
//	                                              │ body
//	                                           [buffer]
//	                                              │ once
//	tool ◀─ {"abstract_data": …, "body_data": "[…]"} ◀─ OnToolCall ◀─ {"abstract_data": …, "resource_url": "ddi://TOKEN"} ◀─ model
//
// With it, mode sync costs the model no more than mode async, and the body is not stored at a
// server: it waits in the agent's own program. Other results and calls pass unchanged, byte for
// byte.
//
// A Dispatcher belongs to one session of one agent; its handles are invalid elsewhere. The package
// knows the form of results and arguments, and nothing of connections or sessions.
package dispatch
