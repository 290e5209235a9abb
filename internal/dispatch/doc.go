// Package dispatch takes one call of an agent to an upstream. A [Call] describes it. Each [Link] of
// the chain answers the call, or changes it and passes it on. Sessions, transports and
// configuration files belong to the gateway.
//
//	[Normalise] ▶ $table (a look) ▶ [Validate] ▶ [Admission] ▶ [DryRun] ▶ $table ▶ [Cache] ▶ [Retry] ▶ Peer
//
// Admission applies [Controls]: the pin, the policy, the quotas and the hooks. Every call to an
// upstream needs a pass from Controls.Admit, regardless of its method and URL. [Results] asks the
// hooks about what upstreams answer.
package dispatch
