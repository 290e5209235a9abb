// Package embedding asks an OpenAI-compatible endpoint for vectors of texts.
//
// It is a [search.Embedder] and knows nothing else of search, nor of MCP. Nothing is sent unless an endpoint is configured.
//
//	POST {URL}/embeddings  {"model":…,"input":[texts],"encoding_format":"float"}
//	200                    {"data":[{"index":0,"embedding":[…]},…]}
package embedding
