package store

// Prefixes of the keys of documents. Each belongs to one room, which names the rest of its keys. A room that adds
// documents takes a prefix of its own here.
const (
	AgentKeys      = "a."    // agents that have registered
	AuthKeys       = "as."   // grants of the gateway's authorization server
	ClaimKeys      = "u."    // claims of servers, programs and hubs elsewhere
	ProofKeys      = "dpop." // proofs of keys that were used
	SuccessorKeys  = "e."    // the successors of nodes
	FirstKeys      = "f."    // the first definitions of servers
	ChangeKeys     = "fc."   // the last changes of definitions
	PassedTaskKeys = "k."    // tasks of agents at /mcps
	FeedbackKeys   = "fb."   // tools that were run after searches
	FlowKeys       = "fl."   // labels of sessions and principals
	ListingKeys    = "l."    // the last lists of servers
	LogoutKeys     = "lo."   // logouts by the provider of logins
	NodeKeys       = "n."    // nodes
	OfficeKeys     = "o."    // offices of hubs
	OnceKeys       = "once." // approvals that were used
	RecallKeys     = "p."    // the history of sessions and principals
	QuotaKeys      = "q."    // quotas
	ResultKeys     = "r."    // results that were held back
	RunKeys        = "run."  // runs of programs
	SessionKeys    = "s."    // sessions of clients
	TaskKeys       = "t."    // tasks of queues by their groups; gw and gwid are tasks of a gateway
	HolderKeys     = "th."   // processes that run tasks of queues
	VectorKeys     = "v."    // embeddings
)
