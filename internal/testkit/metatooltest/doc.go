// Package metatooltest is a gateway over the servers of package calltest. The rooms below the gateway test with it what
// their code does in a call; tests of a room without a call need none of it.
package metatooltest
