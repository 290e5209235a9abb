// Package dispatch takes one call of an agent to an upstream. A [Call] describes it. A [Pipeline] runs
// the [Step]s of the call by their [Phase]s, then its [Sender]. Sessions, transports and configuration
// files belong to the gateway.
//
//	[Normalise] ▶ $table (a look) ▶ [Validate] ▶ [Admission] ▶ [DryRun] ▶ $table ▶ [Cache] ▶ [Results] ▶ [RetryPolicy] ▶ Peer
//
// Admission applies [Controls]: the pin, the policy, the quotas and the hooks. Every call to an
// upstream needs a pass from Controls.Admit, regardless of its method and URL. Results asks the hooks
// about the answers of upstreams.
package dispatch
