// Package mcptask reads and writes tasks as MCP defines them, in both eras:
//
//	2025-11-25   tools/call with task:{ttl} ─▶ {task:{taskId,…}}             tasks/get, tasks/result, tasks/cancel
//	2026-07-28   the extension among the client's capabilities
//	             tools/call ─▶ {resultType:"task", taskId,…}                 tasks/get, tasks/update, tasks/cancel
//
// It also reads the tasks of agent servers that know no tasks of MCP:
//
//	tools/call ─▶ {taskId, content:…}                           GET and DELETE getTaskStatus?taskId=…
//
// It knows messages only: no connection, no session and no queue.
package mcptask
