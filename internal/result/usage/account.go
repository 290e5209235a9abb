package usage

import "github.com/weir-mcp/weir/internal/catalog"

// Account counts the cost of all sessions. Its zero value is empty. It is safe for concurrent use.
type Account struct {
	total   Counters
	counter counter
	native  nativeTokens
}

// Total returns the usage of all sessions.
func (a *Account) Total() Usage { return a.total.Read() }

// Call counts one call of a session.
func (a *Account) Call(session *Counters, failed bool) {
	for _, c := range []*Counters{&a.total, session} {
		c.calls.Add(1)
		if failed {
			c.failed.Add(1)
		}
	}
}

// Close waits until all deferred work of Tally is done. It accepts no more work.
func (a *Account) Close() { a.counter.close() }

// MaxInline is the size up to which Tally counts synchronously.
const MaxInline = 8 << 10

// Tally adds the tokens that work counts to a session and to the total. It runs work at once if
// that is cheap or size is small, otherwise later. It calls tell, if set, once, with counted false
// if the tokens remain unknown.
func (a *Account) Tally(session *Counters, p Part, size int, cheap bool, work func() Count, tell func(n Count, counted bool)) {
	run := func() {
		n := work()
		a.total.add(p, n)
		session.add(p, n)
		if tell != nil {
			tell(n, true)
		}
	}
	if cheap || size <= MaxInline {
		run()
		return
	}
	a.total.pending.Add(1)
	session.pending.Add(1)
	later := func() {
		run()
		a.total.pending.Add(-1)
		session.pending.Add(-1)
	}
	if a.counter.push(int64(size), later) {
		return
	}
	a.total.pending.Add(-1)
	session.pending.Add(-1)
	a.Uncounted(session, tell)
}

// Uncounted records an answer whose tokens remain unknown.
func (a *Account) Uncounted(session *Counters, tell func(n Count, counted bool)) {
	a.total.uncounted.Add(1)
	session.uncounted.Add(1)
	if tell != nil {
		tell(Count{}, false)
	}
}

// Definitions adds the tokens of a list that is read, and of the list that would be read without a
// gateway.
func (a *Account) Definitions(session *Counters, tokens func(string) int, of *catalog.Catalog, list []byte, isRead, isRaw bool) {
	n, known := a.native.get(of, list)
	a.Tally(session, Definitions, MaxInline+1, known, func() (c Count) {
		if !known {
			n = a.native.count(tokens, of, list)
		}
		if isRead {
			c.Read = n.list
		}
		if isRaw {
			c.Raw = n.raw
		}
		return c
	}, nil)
}
