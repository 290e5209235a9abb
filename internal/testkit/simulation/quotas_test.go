package simulation_test

import (
	"slices"
	"time"

	"github.com/weir-mcp/weir/internal/dispatch"
)

// perMinute is the quota of the principal, over all nodes.
const perMinute = 60

// counts makes calls with a quota at one node after another.
func (w *world) counts() {
	controls := dispatch.NewControls(dispatch.Pin{}, nil, dispatch.RateLimits{MetaTools: map[string]dispatch.RateLimit{"tool_browse": {PerMinute: perMinute}}}, nil, time.Now(), nil)
	for !w.over() {
		n := w.pick()
		_, err := controls.Admit(w.t.Context(), &dispatch.Act{Verb: "tool_browse", Count: "tool_browse", Ledger: n.ledger})
		if err == nil && !n.isDead() {
			w.mu.Lock()
			w.counted = append(w.counted, time.Now())
			w.mu.Unlock()
		}
		w.pause(1600 * time.Millisecond)
	}
}

// within checks that no minute has more calls than the quota.
func (w *world) within() {
	slices.SortFunc(w.counted, time.Time.Compare)
	for i, at := range w.counted {
		if i >= perMinute && at.Sub(w.counted[i-perMinute]) < time.Minute {
			w.wrong("%d calls within %v, and the quota is %d a minute", perMinute+1, at.Sub(w.counted[i-perMinute]), perMinute)
			return
		}
	}
	if len(w.counted) == 0 {
		w.wrong("no call was within the quota")
	}
}
