// Package ranking prepares the catalog of a gateway for searches while it changes: it indexes the words of
// new entries, and asks for their embeddings if the configuration names an endpoint.
//
//	catalog.Live ─▶ Prepare ─▶ an index, at once or in the background
//	              ─▶ Changed ─▶ embeddings, half a second after the last change
//
// It ranks nothing itself; package search does.
package ranking
