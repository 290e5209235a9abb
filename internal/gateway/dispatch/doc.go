// Package dispatch takes one call of an agent to an upstream. A [Call] describes it; each [Link] of the
// chain answers the call, or changes it and hands it on. It knows no session, no transport and no
// configuration file: the gateway gives it what it needs.
//
//	[Normalise] ▶ $table (a look) ▶ [Validate] ▶ [Admission] ▶ [DryRun] ▶ $table ▶ [Cache] ▶ [Retry] ▶ Peer
//
// Admission asks [Controls], which are the pin, the policy and the quotas. Everything that reaches an
// upstream passes them, by whichever method and URL: only Controls.Admit makes a [Pass].
package dispatch
