// Package setup plans the first steps of a person, and the small changes after them: servers of MCP
// clients come into weir.yaml, and weir stands in the clients' files in their place.
//
//	Look ──▶ sources: clients, their files, their servers
//	          │
//	          ├─ Import      servers ──▶ weir.yaml, secrets ──▶ the store
//	          ├─ Connect     the same, and weir's entry in the place of theirs
//	          ├─ Disconnect  weir's entry out, theirs back, byte by byte
//	          └─ Add, Remove, Switch: one server of weir.yaml
//	          ▼
//	         Plan (to show) ──▶ Apply ──▶ one operation of the journal ──▶ Undo
//
// Nothing is written before Apply. The package asks no person, prints nothing and starts no server:
// commands and the console do that.
package setup
