// Command tasks plays fifteen tasks of an agent and counts what each costs a model, in turns and in
// tokens (cl100k_base, exact). The calls of each task are written down in tasks/*.txt; the servers
// and the gateways are real, and so are the answers.
//
//	               ┌─ native    the servers themselves, every definition in the context
//	tasks/*.txt ───┼─ before    tool_browse, tool_execute, tool_view of an earlier weir (-before)
//	               ├─ single    the same calls, with this weir
//	               └─ programs  tool_run, with this weir
//
// A call that fails and should not, an id that no answer showed, or an answer without the text that
// the agent needs from it ends the run with an error. The program knows no model: the words of a
// model between its calls are the same in all ways, and left out.
//
//	go run ./bench/tasks -weir bin/weir                   the tasks of weir's own demo servers
//	go run ./bench/tasks -weir bin/weir -servers FILE     all tasks: interop/tasks.mjs writes such a file
package main
