// Package api serves the paths of a gateway below /api/v1: viewers read the gateway, and
// operators change it. The console and the commands of weir are its clients.
//
//	request ─▶ own Origin? ─▶ right of the path ─┬─ look     any caller of the whole gateway ─▶ handler
//	               │                             ├─ operate  an operator ─▶ POST? JSON? ─▶ handler
//	               │                             └─ own      the gateway's user ─▶ POST? JSON? ─▶ handler
//	              403                                 401, 403           405, 415
//
// The table in routes.go names all paths. The OpenAPI document is made from it and from the types of
// the answers.
//
// An operator shows the key of the state folder from this machine, a token that was given for a code
// of the key's owner, or a token with the role "operator". The role "auditor" opens only the
// audit log. To be on this machine is not enough: an operator starts commands, and pages and other users
// are on this machine as well.
//
// The package asks the gateway through interfaces. It knows no configuration, and of MCP only
// the errors.
package api
