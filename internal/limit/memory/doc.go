// Package memory bounds the bytes that a process holds at one time: messages in reception, results
// that are kept, and copies that calls make of both. It knows bytes, owners and files, and nothing
// of the meaning of the bytes.
//
//	network ─▶ Buffer ─┬─ up to 64 KB ─────────────── free
//	                   ├─ up to 8 MB, where there is room ─ counted
//	                   └─ else ─────────────────────── a file
//	                            │
//	                          Block ─▶ Open: counted, mapped; waits for room ─▶ bytes ─▶ Deliver ─▶ Scope ─▶ End
//
//	call ─▶ Take ─▶ bytes on the heap ─▶ Give, or the end of the Scope
//
// All of it is taken from one [Pool], so that many messages at once cannot take more than one limit. Of the limit, half at
// most is for kept results, three eighths for files that are open, and the rest is left for messages in reception and for
// calls. Messages in reception leave a quarter of the limit to calls, and files that are open an eighth. A message that has
// no room in memory while it arrives goes to a file at once, so a reader does not wait while it holds anything. Only opening
// a large message waits, in turns between owners: one upstream with many large results does not shut out another with one.
//
// A file has no name by the time the first byte is in it, or is removed with its
// Block where the system cannot do that. It is mapped into memory to be read:
// its pages are the system's to take back, and no garbage collector looks at
// them. The bytes are valid as long as the [Scope] that the Block was delivered
// to: whatever outlives a call is cloned, as everywhere in weir.
//
// A nil *Pool, *Account or *Block bounds nothing and holds everything on the heap.
package memory
