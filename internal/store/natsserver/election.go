package natsserver

import (
	"time"
	_ "unsafe" // for go:linkname
)

// The servers of a cluster elect another leader when the one of the documents is silent for a time between these two.
// Until then no document changes. The engine's own times are 4 and 9 seconds: Computers of a killed leader would be
// away for more than the 10 seconds that weir promises. Heartbeats are twice as frequent as the engine's, so a leader
// may still miss four of them before it counts as silent. A server with the engine's own times, as those of older
// builds have, is silent for less than the shortest time: it can lead these.
const (
	quickestElection = 2500 * time.Millisecond
	slowestElection  = 5 * time.Second
	heartbeat        = 500 * time.Millisecond
)

// The engine has no options for these times, but variables. TestElectionTimes fails if a release of it renames one.
//
//go:linkname minElectionTimeout github.com/nats-io/nats-server/v2/server.minElectionTimeout
var minElectionTimeout time.Duration

//go:linkname maxElectionTimeout github.com/nats-io/nats-server/v2/server.maxElectionTimeout
var maxElectionTimeout time.Duration

//go:linkname hbInterval github.com/nats-io/nats-server/v2/server.hbInterval
var hbInterval time.Duration

// engineTimes has what the engine gave these variables: nothing, if they are not its own any more.
var engineTimes [3]time.Duration

// It runs after the engine's own init, and before the first server of the process, which reads them without a lock.
func init() {
	engineTimes = [3]time.Duration{minElectionTimeout, maxElectionTimeout, hbInterval}
	minElectionTimeout, maxElectionTimeout, hbInterval = quickestElection, slowestElection, heartbeat
}
