// Package journal changes configuration files of other programs. Each change can be shown before,
// survives programs that write the same file, and can be undone. The package knows formats through
// package splice, and no clients.
//
//	Begin ▶ Edit a file ▶ Changes (a diff to show) ▶ Apply ──▶ op.json + originals ▶ the files
//	                                                          └─ read again at once and after 2 s
//	Undo N: a file as weir left it ──▶ its original bytes, or no file
//	        any other file         ──▶ weir's entries out, the bytes that were cut back in
//
// A file is written to a temporary file in its folder, synced and renamed. Links are followed, and
// mode and owner are kept. Apply fails and changes nothing if a file has changed since it was
// planned. A program that keeps its file in memory may overwrite a change. Then Apply makes the
// change again, up to three times, and after that fails with [ErrLost].
//
// A journal is a folder that only its user can read. Each operation has a folder NNNN with op.json
// and the originals. It keeps 50 operations and 100 MB. Several processes may use one journal: a
// lock file makes them take turns.
package journal
