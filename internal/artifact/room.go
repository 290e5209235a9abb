package artifact

import (
	"container/list"
	"errors"
	"time"

	"github.com/weir-mcp/weir/s2sp/table"
)

// waits reports whether an unspent token leads to an item, so that it must not be
// evicted.
func (it *item) waits() bool { return it.single || len(it.tokens) > 0 }

// waiting is how many of a principal's bytes wait behind unspent tokens. Callers
// hold mu.
func (s *Local) waiting(sp *space) (n int64) {
	for _, it := range sp.items {
		if it.waits() && !it.beyond {
			n += it.SizeBytes
		}
	}
	return n
}

// makeRoom evicts handles, the least recently used first, so that one more item
// of size bytes has room. Callers hold mu.
func (s *Local) makeRoom(sp *space, size int64, now time.Time) error {
	if size > s.opts.MaxBytes {
		return s.tooLarge(size)
	}
	if sp.bytes+size > s.opts.MaxBytes {
		if n := s.waiting(sp); n+size > s.opts.MaxBytes {
			return s.full("a result of %d bytes: unspent resource_urls take %d of %d (%s); raise it, or spend them first",
				size, n, s.opts.MaxBytes, s.opts.Setting("max_bytes"))
		}
	}
	s.evict(sp, size, 1, now)
	if sp.recent.Len() >= s.opts.MaxCount {
		return s.full("a result: an unspent resource_url leads to each of the %d that this principal may hold; raise %s", s.opts.MaxCount, s.opts.Setting("max_count"))
	}
	return nil
}

// evict removes handles until there is room for size bytes and for so many more
// handles, as far as there are any without a token. Callers hold mu.
func (s *Local) evict(sp *space, size int64, handles int, now time.Time) {
	var before *list.Element
	for e := sp.recent.Back(); e != nil; e = before {
		if sp.recent.Len()+handles <= s.opts.MaxCount && sp.bytes+size <= s.opts.MaxBytes {
			return
		}
		before = e.Prev()
		if it := e.Value.(*item); !it.waits() {
			s.remove(it, ErrEvicted, now)
		}
	}
}

// place says where a deposit of so many bytes goes: into a file if it would have
// to take others' room and there are files, or an error if there is no room.
func (s *Local) place(principal string, size int64) (inFile bool, err error) {
	s.mu.Lock()
	defer s.unlock()
	if s.closed {
		return false, ErrClosed
	}
	s.expire(s.opts.Now())
	sp := s.spaces[principal]
	if sp == nil {
		sp = &space{}
	}
	if err := s.tokenRoom(sp); err != nil {
		return false, err
	}
	if sp.bytes+size > s.opts.MaxBytes && s.opts.Dir != "" {
		return true, nil
	}
	return false, s.depositRoom(sp, size)
}

// tokenRoom says whether a principal may have one more token. Callers hold mu.
func (s *Local) tokenRoom(sp *space) error {
	if sp.tokens.Len() < s.opts.MaxTokens {
		return nil
	}
	return s.full("another resource_url: %d of this principal are unspent, and no more are kept; spend some, or wait for their end (%s)", s.opts.MaxTokens, s.opts.Setting("token_ttl"))
}

// depositRoom says whether a deposit in memory has room, if need be in place of
// handles. Callers hold mu.
func (s *Local) depositRoom(sp *space, size int64) error {
	if sp.bytes+size <= s.opts.MaxBytes {
		return nil
	}
	if size > s.opts.MaxBytes {
		return &Error{Kind: ErrTooLarge, Detail: s.full("a table of %d bytes: a principal has %d (%s); raise it, or set %s so that tables can go to disk",
			size, s.opts.MaxBytes, s.opts.Setting("max_bytes"), s.opts.Setting("dir")).Error()}
	}
	if n := s.waiting(sp); n+size > s.opts.MaxBytes {
		return s.full("a table of %d bytes: unspent resource_urls take %d of %d (%s); raise it, set %s, or spend them first",
			size, n, s.opts.MaxBytes, s.opts.Setting("max_bytes"), s.opts.Setting("dir"))
	}
	return nil
}

// settle makes room for a deposit whose content is there, or says that there is
// none. Callers hold mu.
func (s *Local) settle(sp *space, it *item, now time.Time) error {
	if sp.bytes+it.SizeBytes > s.opts.MaxBytes && it.content.file != "" && s.opts.Dir != "" {
		it.beyond = true
		return nil
	}
	if err := s.depositRoom(sp, it.SizeBytes); err != nil {
		return err
	}
	s.evict(sp, it.SizeBytes, 0, now)
	return nil
}

// store takes a table over: in memory where it may be there, and else row by row
// into a file.
func (s *Local) store(principal, label string, t *table.Table, cancelled func() error) (*content, error) {
	data, index := t.Size()
	inFile, err := s.place(principal, data)
	if err != nil {
		return nil, err
	}
	inMemory := func() *content {
		if !s.reserve(data + index) {
			return nil
		}
		return &content{store: s, size: data, index: index, rows: t, holders: 1}
	}
	if !inFile {
		if c := inMemory(); c != nil {
			return c, nil
		}
	}
	// A table that has a _row_id of its own was read so, and is again.
	w := s.NewTable(principal, label, table.Options{KeepRowID: t.Has(table.RowID)})
	w.toFile = inFile
	for i, row := range t.Rows() {
		if i%1024 == 0 {
			err = cancelled()
		}
		if err == nil {
			err = w.Append(row)
		}
		if err != nil {
			break
		}
	}
	var c *content
	if err == nil {
		c, err = w.finish()
	}
	if err != nil {
		w.Abort()
		// Where the disk is full, handles give their room.
		if inFile && errors.Is(err, ErrFull) && s.mayEvict(principal, data) {
			if c := inMemory(); c != nil {
				return c, nil
			}
		}
		return nil, err
	}
	return c, nil
}

func (s *Local) mayEvict(principal string, size int64) bool {
	s.mu.Lock()
	defer s.unlock()
	sp := s.spaces[principal]
	return sp != nil && s.depositRoom(sp, size) == nil
}
