// Package agentserver is an MCP server. Its tools, resources and prompts are commands, Markdown
// files or Go functions.
//
//	POST /mcp ─▶ streamable.Server ─▶ Lifecycle ─▶ tools/call ─▶ arguments against the schema
//	                                                                      │
//	              result, or the id of a task ◀── queue (concurrency 1, at most 1,024 wait)
//	                                                                      │
//	                            command: {"tool","input","metadata","taskId"} ─▶ stdin   stdout ─▶ result
//	                            function: f(ctx, input)                                  stderr ─▶ log tail
//
// Every call of a tool goes through the queue. A call of an async tool is answered at once. A
// client that knows tasks of MCP (tasks/* of 2025-11-25, the extension of 2026-07-28) gets a task.
// Other clients get a result with a taskId. Only the caller may read and cancel the task.
//
//	/mcp                                     MCP, every version, with and without session
//	/getTaskStatus?taskId=, /task?taskId=,
//	/mcps/{agent}/task?taskId=               GET: {"task":{id,toolName,status,createdAt,updatedAt,error,result,logTail,logSeq,logTruncated}}
//	                                         DELETE: cancels it, and answers likewise
//	/health, /healthz                        {"status","uptime" in seconds,"name","queue":{queued,running,concurrency},…};
//	                                         {"status"} without a token if Options.Authenticate requires one
//
// # Registration with a router
//
// If Options.Router is set, the agent registers with that router:
//
//	POST   {router}/agents                          {"name","instance","port" or "url","pid","health":"/health","server":{"name","version"}}
//	       Authorization: Bearer {RouterToken}      ─▶ 200 {"leaseMs":30000,"invocation":{"secret":…}}
//	DELETE {router}/agents/{name}?instance={…}      ─▶ 204
//
// The agent repeats the POST after each third of the lease. The POST is its heartbeat, and informs
// a router that was restarted. url is the agent's MCP endpoint, as the router should reach it. With
// port in its place, the endpoint is /mcp at that port and at the sender's address. instance is
// random for each start of an agent: a DELETE of an old instance must not remove the new one. The
// router answers 401 or 403 to a token that it does not accept, and 409 if another live agent has
// the name. The agent repeats every failed request after 1 to 30 seconds. It sends the DELETE when
// it ends, before it stops serving.
//
// A router that gives a secret signs its requests with it (HS256). A router of several nodes whose key changes
// gives "others" in addition, a list of secrets: its nodes sign with any of them. Then the agent knows the
// principal of each request, and only the principal of a task may read it. Requests without a token are still
// admitted, as by Options.Authenticate.
//
// With Options.InvocationKey, the agent refuses every request without a token of the router: a JWT in
// the header Weir-Invocation. For a tools/call, the token must name the called tool; for other
// requests it names none. The token also names the principal.
//
// The package knows no upstreams and no catalog of others, and reads no environment.
package agentserver
