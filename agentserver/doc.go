// Package agentserver is an MCP server whose tools, resources and prompts are
// made of commands, of Markdown files, or of Go functions.
//
//	POST /mcp ─▶ streamable.Server ─▶ Lifecycle ─▶ tools/call ─▶ arguments against the schema
//	                                                                      │
//	              result, or the id of a task ◀── taskqueue (concurrency 1, at most 1,024 wait)
//	                                                                      │
//	                            command: {"tool","input","metadata","taskId"} ─▶ stdin   stdout ─▶ result
//	                            function: f(ctx, input)                                  stderr ─▶ log tail
//
// Every call of a tool stands in the queue. An async tool is answered at once:
// with a task of MCP where the client knows them (tasks/* of 2025-11-25, the
// extension of 2026-07-28), else with a result that bears its taskId. Only who
// called may read and cancel the task.
//
//	/mcp                                     MCP, every version, with and without session
//	/getTaskStatus?taskId=, /task?taskId=,
//	/mcps/{agent}/task?taskId=               GET: {"task":{id,toolName,status,createdAt,updatedAt,error,result,logTail,logSeq,logTruncated}}
//	                                         DELETE: cancels it, and answers likewise
//	/health, /healthz                        {"status","uptime" in seconds,"name","queue":{queued,running,concurrency},…};
//	                                         {"status"} without a token where Options.Authenticate wants one
//
// # Registration with a router
//
// Where Options.Router is set, the agent makes itself known:
//
//	POST   {router}/agents                          {"name","instance","port" or "url","pid","health":"/health","server":{"name","version"}}
//	       Authorization: Bearer {RouterToken}      ─▶ 200 {"leaseMs":30000,"invocation":{"secret":…}}
//	DELETE {router}/agents/{name}?instance={…}      ─▶ 204
//
// The POST is repeated after each third of the lease: it is the heartbeat, too,
// and tells a router that has started anew. url is the agent's MCP endpoint as
// it wants to be reached; with port in its place, it is /mcp there, at the
// address the POST came from. instance is random for each start of an agent:
// a DELETE of an old one must not remove the new one. The router answers 401 or
// 403 to a token it does not accept, and 409 where another live agent has the
// name. Whatever goes wrong is tried again, after 1 to 30 seconds. The DELETE is
// sent when the agent ends, before it stops to serve.
//
// A router that gives a secret signs what it sends with it (HS256), and the agent
// then knows on whose behalf a request is: only who made a task may read it.
// Requests without a token are still let in, as those of Options.Authenticate.
//
// With Options.Invocation, the agent refuses every request that does not bear a
// token of the router's; package invocation has its form. For a tools/call, the
// token's tool must be the one called; for all else it is empty. A principal is
// then the token's.
//
// The package knows no upstreams and no catalog of others, and reads no
// environment.
package agentserver
