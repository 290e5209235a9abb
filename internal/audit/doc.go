// Package audit keeps the audit log: the caller of each call, its time and its outcome. Each record
// holds the hash of the record before it, and signatures stand between the records, so a change of
// the files shows. It knows no MCP, no gateway and no configuration.
//
//	Add ──┐                     ┌─▶ DIR/000001-2026-11-22.jsonl   a segment: one record a line
//	      ├─▶ queue ─▶ writer ──┼─▶ DIR/000002-2026-11-23.jsonl   begins with the hash of the last
//	Sync ─┘   (bounded)         └─▶ DIR/head                      the newest record
//	   ▲                 │        └▶ Sink: the same lines elsewhere
//	   └──── fsync ──────┘
//
//	DIR ─▶ Verify: the first record that is wrong, and why
//	    └▶ Each:   records in order, as streams
//
// [Log.Add] never waits: records over the bound of the queue are counted, and the log says how many
// there were. [Log.Sync] returns when its record is on disk. The format is spec/audit §1 to §4.
package audit
