// Package approval keeps calls that wait for the yes of an operator.
//
//	a call ─▶ Room.Ask ─▶ waits ─▶ approved, denied, too late, or withdrawn by its caller
//	                        ▲
//	operator ─▶ List ─▶ Decide
//
// The package knows neither policies nor MCP: a question is a text for a person.
package approval
