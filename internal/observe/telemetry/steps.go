package telemetry

import (
	"strconv"
	"time"
)

// A Step is a part of the way of a call through the gateway.
type Step int

// The steps, in the order of a call. A call that ends early has no time in later ones.
const (
	// StepCheck finds the entry and checks the arguments.
	StepCheck Step = iota
	// StepPolicy applies policy, quotas and hooks, and waits for the yes of a person.
	StepPolicy
	// StepPrepare looks into the cache, fills in tables, writes the start to the audit log and waits between
	// attempts.
	StepPrepare
	// StepConnect gets a connection to the server, and starts the server if necessary.
	StepConnect
	// StepServer waits for the answer of the server.
	StepServer
	// StepResult makes the result that the agent reads.
	StepResult
	steps
)

// String returns the name of a step in events.
func (s Step) String() string {
	return [...]string{"check", "policy", "prepare", "connect", "server", "result"}[s]
}

// Steps is the time of a call by its steps. The zero value is that of a call that is not measured, as
// those that are passed on unread.
type Steps [steps]time.Duration

// Measured reports whether there is a time.
func (s *Steps) Measured() bool { return *s != Steps{} }

// Milliseconds returns the time of each step by its name, in milliseconds; nil if none is measured.
func (s *Steps) Milliseconds() map[string]float64 {
	if !s.Measured() {
		return nil
	}
	all := make(map[string]float64, steps)
	for step, took := range s {
		all[Step(step).String()] = float64(took.Microseconds()) / 1000
	}
	return all
}

// appendJSON appends the steps as a member of an object.
func (s *Steps) appendJSON(dst []byte) []byte {
	dst = append(dst, `,"steps_ms":{`...)
	for step, took := range s {
		if step > 0 {
			dst = append(dst, ',')
		}
		dst = append(append(append(dst, '"'), Step(step).String()...), '"', ':')
		dst = strconv.AppendFloat(dst, float64(took.Microseconds())/1000, 'f', -1, 64)
	}
	return append(dst, '}')
}

// An Exchange is what a call and its answer hold. It is made only where the operator asks for it, has no
// secret that the gateway knows, and is never written to a log.
type Exchange struct {
	Arguments, Result []byte // JSON, or its beginning
	// ArgumentsCut and ResultCut say that the bytes are a beginning.
	ArgumentsCut, ResultCut bool
}
