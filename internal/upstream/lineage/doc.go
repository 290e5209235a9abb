// Package lineage decides what the programs that weir starts get of its environment, and finds configurations
// by which weir would start or call itself.
//
//	environment ─▶ Inherited ─▶ server programs, hooks
//	WEIR_PARENT ─▶ Descend ─▶ Lineage ─▶ WEIR_PARENT of server programs
//	configuration ─▶ OmitItself: entries that are left out
//
// It starts no program.
package lineage
