// Package linearity decides whether the operations that clients of a cluster saw can have happened in one
// order: each operation at one moment between its call and its answer, as on one machine that never fails.
//
//	client ─▶ Now ─▶ operation ─▶ Now ─▶ Add ─┐
//	client ─▶ …                               ├─▶ Check(model) ─▶ nil, or what is impossible
//	client ─▶ …                               ┘
//
// An operation without an answer may have had its effect at any later moment, or none. Models describe one
// machine: Tokens for URLs that work once, Offices for members of offices. The package is for tests and
// knows no node and no store: it judges only by answers.
package linearity
