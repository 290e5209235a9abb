package history

import "github.com/weir-mcp/weir/internal/observe/telemetry"

// Limits of the arguments and results that a Book keeps.
const (
	// KeptExchanges is the number of calls of which they are kept, and maxExchanged bounds their bytes.
	KeptExchanges = 200
	maxExchanged  = 16 << 20
)

// exchanges are the arguments and results of the last calls, the oldest first.
type exchanges struct {
	all   []exchange
	bytes int
}

type exchange struct {
	number uint64
	of     *telemetry.Exchange
}

func (x exchange) size() int { return len(x.of.Arguments) + len(x.of.Result) }

// add keeps an exchange and forgets the oldest ones over the limits.
func (x *exchanges) add(number uint64, of *telemetry.Exchange) {
	one := exchange{number, of}
	x.all, x.bytes = append(x.all, one), x.bytes+one.size()
	drop := 0
	for len(x.all)-drop > KeptExchanges || x.bytes > maxExchanged {
		x.bytes -= x.all[drop].size()
		drop++
	}
	if drop > 0 {
		kept := copy(x.all, x.all[drop:])
		clear(x.all[kept:])
		x.all = x.all[:kept]
	}
}

// Exchange returns the arguments and the result of the call with a number; nil if they are not kept. The
// caller must not change them.
func (b *Book) Exchange(number uint64) *telemetry.Exchange {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, one := range b.exchanges.all {
		if one.number == number {
			return one.of
		}
	}
	return nil
}

// KeepExchanges says whether arguments and results are kept, which they are not before it. With false it
// forgets them for all calls, and keeps none of later calls.
func (b *Book) KeepExchanges(keep bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.keeps = keep; !keep {
		b.exchanges = exchanges{}
	}
}
