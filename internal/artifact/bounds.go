package artifact

import (
	"container/list"
	"fmt"
	"time"
)

// waiting returns how many of a principal's bytes belong to unspent tokens. The caller holds mu.
func (l *ledger) waiting(sp *space) (n int64) {
	for _, it := range sp.items {
		if it.waits() && !it.beyond {
			n += it.SizeBytes
		}
	}
	return n
}

// makeRoom evicts handles, the least recently used first, so that one more item
// of size bytes has room. The caller holds mu.
func (l *ledger) makeRoom(sp *space, size int64, now time.Time) error {
	if size > l.opts.MaxBytes {
		return l.opts.tooLarge(size)
	}
	if sp.bytes+size > l.opts.MaxBytes {
		if n := l.waiting(sp); n+size > l.opts.MaxBytes {
			return noRoom("a result of %d bytes: unspent resource_urls take %d of %d (%s); raise it, or spend them first",
				size, n, l.opts.MaxBytes, l.opts.Setting("max_bytes"))
		}
	}
	l.evict(sp, size, 1, now)
	if sp.recent.Len() >= l.opts.MaxCount {
		return noRoom("a result: an unspent resource_url leads to each of the %d that this principal may hold; raise %s", l.opts.MaxCount, l.opts.Setting("max_count"))
	}
	return nil
}

// evict removes handles until there is room for size bytes and for so many more
// handles, as far as there are any without a token. The caller holds mu.
func (l *ledger) evict(sp *space, size int64, handles int, now time.Time) {
	var before *list.Element
	for e := sp.recent.Back(); e != nil; e = before {
		if sp.recent.Len()+handles <= l.opts.MaxCount && sp.bytes+size <= l.opts.MaxBytes {
			return
		}
		before = e.Prev()
		if it := e.Value.(*item); !it.waits() {
			l.remove(it, ErrEvicted, now)
		}
	}
}

// tokenRoom returns an error if a principal may not have another token. The caller holds mu.
func (l *ledger) tokenRoom(sp *space) error {
	if sp.tokens.Len() < l.opts.MaxTokens {
		return nil
	}
	return noRoom("another resource_url: %d of this principal are unspent, and no more are kept; spend some, or wait for their end (%s)", l.opts.MaxTokens, l.opts.Setting("token_ttl"))
}

// depositRoom returns an error if there is no room in memory for a deposit, even after evicting
// handles. The caller holds mu.
func (l *ledger) depositRoom(sp *space, size int64) error {
	if sp.bytes+size <= l.opts.MaxBytes {
		return nil
	}
	if size > l.opts.MaxBytes {
		return &Error{Kind: ErrTooLarge, Detail: noRoom("a table of %d bytes: a principal has %d (%s); raise it, or set %s so that tables can go to disk",
			size, l.opts.MaxBytes, l.opts.Setting("max_bytes"), l.opts.Setting("dir")).Error()}
	}
	if n := l.waiting(sp); n+size > l.opts.MaxBytes {
		return noRoom("a table of %d bytes: unspent resource_urls take %d of %d (%s); raise it, set %s, or spend them first",
			size, n, l.opts.MaxBytes, l.opts.Setting("max_bytes"), l.opts.Setting("dir"))
	}
	return nil
}

// settle makes room for a deposit whose content is stored, or returns an error. The caller holds
// mu.
func (l *ledger) settle(sp *space, it *item, now time.Time) error {
	if sp.bytes+it.SizeBytes > l.opts.MaxBytes && it.content.file != "" {
		it.beyond = true
		return nil
	}
	if err := l.depositRoom(sp, it.SizeBytes); err != nil {
		return err
	}
	l.evict(sp, it.SizeBytes, 0, now)
	return nil
}

// noRoom returns an ErrFull that names the bound that is reached.
func noRoom(format string, args ...any) error {
	return &Error{Kind: ErrFull, Detail: "no room for " + fmt.Sprintf(format, args...)}
}

// tooLarge returns the error for an artifact that no eviction can make room for.
func (o *Options) tooLarge(size int64) error {
	return &Error{Kind: ErrTooLarge, Detail: fmt.Sprintf(
		"no room for a result of %d bytes: at most %d are kept for one principal; raise %s", size, o.MaxBytes, o.Setting("max_bytes"))}
}
