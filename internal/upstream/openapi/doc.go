// Package openapi offers the operations of an HTTP API as tools. It reads an OpenAPI document of version 3.0 or 3.1
// and is a Peer: lists of tools are made of the document, and calls become requests to the API.
//
//	document ──Open──▶ operations ──▶ tools/list: a tool each, with one JSON Schema of 2020-12
//	                       │
//	tools/call ──▶ arguments ▶ path, query, headers, cookies, body ──▶ the API at Options.Base
//	result     ◀── JSON, text, image, blob; 4xx and 5xx are errors of the tool ◀──┘
//
// Requests go only to Options.Base, never to the servers that a document names. So a document cannot lead requests,
// and the credentials on them, to another host. It knows no configuration and no credentials; those come
// with Options.Header and Options.Wrap.
package openapi
