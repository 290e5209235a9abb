// Package flow decides by what a model has read which calls it may make unasked. A result has a label: whether its
// text can be trusted, and the names of those who may see it. A label travels with its result, and taints the session
// to which the result is shown:
//
//	server ─▶ result + label ─┬─ shown ─▶ Session.Read: the session has the label from now on
//	                          ├─ kept, cached, a task ─▶ the mark of the label lies with it, and comes back with it
//	                          └─ a program's ─▶ Run.Read: the run has the label, and gives it to what it returns
//
//	call of a sink ─▶ Flow.Judge: label of the session or of the run ─▶ runs, asks a person, or is refused
//
// Read is the only way in and Judge the only way out. Other packages carry a Label or its Mark, and do not look into
// it. A mark that is missing or cannot be read counts as untrusted.
package flow
