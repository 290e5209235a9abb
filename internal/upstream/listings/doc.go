// Package listings keeps the lists of servers in the store: the last ones fill the catalog of the next process and
// tell the nodes of a cluster when they list differently, and with the first ones later definitions are
// compared. It keeps the last changes of definitions as well.
//
// It starts no server, and does not know who reads the catalog.
package listings
