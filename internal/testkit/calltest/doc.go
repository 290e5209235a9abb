// Package calltest has servers in memory and a client that calls them, for tests of everything that stands between
// the two. It knows no gateway, so that tests inside package metatool can use it as well:
//
//	client ▶ handler under test ▶ Fleet ▶ Peer, Shelf or TaskServer
//	  │                             │
//	Answer, Failure               Called
package calltest
