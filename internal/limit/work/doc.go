// Package work counts and bounds the computations that untrusted input causes: arguments to check
// against a schema, patterns to search for, conditions on rows. It knows nothing of schemas, tables
// and artifacts.
//
//	schema, search, query ──Spend(units)──▶ Meter ──▶ ErrLimit, ErrTime, or the context's error
//	                                          │ more than Small
//	                                          ▼
//	                                        Turns: so many at a time, first come, first served, 20 ms each
//
//	                 ──Take(bytes)───▶ Meter ──▶ Room, as of the account of memory
//
// The unit is one instruction of a regular expression applied to one byte, which
// takes 5 to 10 ns where the pattern does its worst, and far less for most
// patterns. Other work is counted in the same unit.
//
// Small computations never wait and look at no clock. Large ones share a few
// turns, so that however many there are, one processor is left for the rest.
package work
