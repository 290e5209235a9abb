package search

import (
	"strings"
	"sync"
)

// stopWords are English words that do not help to choose a tool: function words, and phrases of
// requests ("please", "could you", "I would like"). They are removed from queries unless nothing
// else is left, and do not count in the length of a field.
var stopWords = lazySet(wordSet, `
a about above after again against all also always am an and another any anybody anyone anything are aren as at
be because been before being below between both but by
can cannot could couldn
d did didn do does doesn doing don done down during
each either else ever every everything
few for from further furthermore
had hadn has hasn have haven having he her here hers herself him himself his how however
i if in instead into is isn it its itself
just
let lets ll
m may maybe me might more moreover most much must my myself
need needs neither no nor not now
of off ok okay on once one only onto or other others our ours ourselves out over own
perhaps please
quite
rather re really
s same shall she should shouldn since so some somebody someone something somehow still such
t than thank thanks that the their theirs them themselves then there these they this those though through thus to too
under until up upon us
ve very
want wanted wants was wasn we well were weren what whatever when whenever where wherever whether which whichever while who
whoever whole whom whose why will with within without won would wouldn
yes yet you your yours yourself
like help could kindly additionally specific particular various currently available
`)

// englishWords are frequent function words of English that are rare in other languages.
var englishWords = lazySet(wordSet, `
and are for from has how is it my of our that the their this to what when where which who why with you your
`)

// lazySet makes a set when it is first used: most commands of a shell never search.
func lazySet(of func(string) map[string]bool, words string) func() map[string]bool {
	return sync.OnceValue(func() map[string]bool { return of(words) })
}

func wordSet(s string) map[string]bool {
	m := map[string]bool{}
	for _, w := range strings.Fields(s) {
		m[w] = true
	}
	return m
}

func stemSet(s string) map[string]bool {
	m := map[string]bool{}
	for _, w := range strings.Fields(s) {
		m[string(appendStem(nil, []byte(w)))] = true
	}
	return m
}

// faintWords are framing words. They occur in texts of tools, but in a query they describe the
// motive rather than the request, so they have a reduced weight.
var faintWords = lazySet(stemSet, `
actually advice also amazing around ask assist assistance aware best better bit bring
collect come complete comprehensive correct curious
detail details
easily easy enjoy ensure exactly excited explore
favorite feel figure friend friends full fun
gather give go going good great guide
happen hear hope hoping
idea important include included including information interested interesting
keep know knowing
let looking look lot love
make making mention mentioned
necessary new
organize organizing
people perfect plan planning possible possibly prepare preparing provide provided purpose
recently recent relevant research right
say see show simple situation start still struggle stuff suggest suitable sure
take talk tell thing things think thinking thought today together tool tools trying try
understand upcoming use useful user users using
valuable various
way wondering wonder work working wish
`)
