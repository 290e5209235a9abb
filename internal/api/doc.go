// Package api serves the operator's paths of a gateway, below /api/v1: restart a server, read what
// servers write to standard error, approve calls, accept changed definitions, read the audit log.
//
//	request ─▶ own Origin? ─▶ operator? ─▶ method, Content-Type ─▶ handler ─▶ JSON, or lines of JSON
//	               │              │                  │
//	              403          401, 403           405, 415
//
// An operator shows the key of the state folder from this machine, or a token with the role
// "operator". The role "auditor" opens the audit log alone. To be on this machine is not enough: an operator starts commands, and pages and other
// users are on this machine as well.
//
// The package asks the gateway through interfaces. It knows no configuration, and of MCP the errors
// alone.
package api
