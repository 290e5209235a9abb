// Package wire frames the messages between a gateway and its workers. It knows nothing of programs.
//
//	┌──────┬──────────┬─────────────┬─────────────┬──────┬──────┐
//	│ kind │ id       │ len of head │ len of body │ head │ body │
//	│ 1    │ 4, big e.│ 4           │ 4           │      │      │
//	└──────┴──────────┴─────────────┴─────────────┴──────┴──────┘
//
// The head is a small JSON object, the body is bytes of the program or of a tool. A reader states how
// many bytes of each it takes before it reads them.
package wire
