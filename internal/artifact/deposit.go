package artifact

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"time"

	"github.com/weir-mcp/weir/s2sp/table"
)

// Deposit implements Tokens.
func (s *Local) Deposit(ctx context.Context, principal, label string, t *table.Table, ttl time.Duration) (Token, error) {
	if err := ctx.Err(); err != nil {
		return Token{}, err
	}
	c, err := s.store(principal, label, t, ctx.Err)
	if err != nil {
		return Token{}, err
	}
	return s.deposit(principal, label, c, ttl)
}

// DepositSource makes a token for rows that stay at their source until the token is claimed. They
// take no room until then. A ttl of 0 is Options.TokenTTL. It fails with ErrFull if the principal
// has too many tokens.
func (s *Local) DepositSource(ctx context.Context, principal, label string, from Source, ttl time.Duration) (Token, error) {
	if err := ctx.Err(); err != nil {
		return Token{}, err
	}
	return s.deposit(principal, label, &content{budget: s.budget, source: from, holders: 1}, ttl)
}

// deposit makes an artifact without a handle, and its token. It takes over the caller's reference
// to c.
func (s *Local) deposit(principal, label string, c *content, ttl time.Duration) (Token, error) {
	var name [16]byte
	rand.Read(name[:])
	l := s.ledger
	now, err := l.lock()
	defer l.unlock()
	if err != nil {
		l.dead = append(l.dead, c)
		return Token{}, err
	}
	sp := l.space(principal)
	// The artifact expires with its token, which may have a time of its own.
	it := &item{content: c, single: true,
		Artifact: Artifact{Handle: "single_" + hex.EncodeToString(name[:]), Label: bounded(label), SizeBytes: c.size, Created: now, Expires: now.Add(s.opts.tokenTTL(ttl))}}
	if err = l.tokenRoom(sp); err == nil {
		err = l.settle(sp, it, now)
	}
	if err != nil {
		l.dead = append(l.dead, c)
		l.release(sp)
		return Token{}, err
	}
	l.add(sp, it)
	return l.issue(it, ttl, now), nil
}

// replace puts rows in the place of a token's source. It takes over the caller's reference to kept.
func (s *Local) replace(t *token, kept *content, sel table.Selection) error {
	l := s.ledger
	now, err := l.lock()
	defer l.unlock()
	it := t.item
	if err != nil || l.tokens[t.hash] != t {
		l.dead = append(l.dead, kept)
		return ErrToken // it expired meanwhile
	}
	next := &item{Artifact: it.Artifact, content: kept, single: true, limited: &sel}
	next.SizeBytes = kept.size
	if err := l.settle(it.space, next, now); err != nil {
		l.dead = append(l.dead, kept)
		return err
	}
	l.dead = append(l.dead, it.content)
	it.content, it.limited, it.SizeBytes, it.beyond = kept, next.limited, next.SizeBytes, next.beyond
	if !it.beyond {
		it.space.bytes += it.SizeBytes
	}
	return nil
}

// placeDeposit decides where a deposit of size bytes goes. It goes into a file if memory would need
// the room of handles and there are files. It fails if there is no room at all.
func (s *Local) placeDeposit(principal string, size int64) (inFile bool, err error) {
	l := s.ledger
	_, err = l.lock()
	defer l.unlock()
	if err != nil {
		return false, err
	}
	sp := l.spaces[principal]
	if sp == nil {
		sp = &space{}
	}
	if err := l.tokenRoom(sp); err != nil {
		return false, err
	}
	if sp.bytes+size > s.opts.MaxBytes && s.budget.spill != nil {
		return true, nil
	}
	return false, l.depositRoom(sp, size)
}

// store takes over a table. It keeps the table as it is if memory has room, and writes it row by row
// into a file otherwise.
func (s *Local) store(principal, label string, t *table.Table, cancelled func() error) (*content, error) {
	data, index := t.Size()
	inFile, err := s.placeDeposit(principal, data)
	if err != nil {
		return nil, err
	}
	inMemory := func() *content {
		if !s.budget.reserve(data + index) {
			return nil
		}
		return &content{budget: s.budget, size: data, index: index, rows: t, holders: 1}
	}
	if !inFile {
		if c := inMemory(); c != nil {
			return c, nil
		}
	}
	c, err := s.copyRows(principal, label, t, inFile, cancelled)
	// If the disk is full, handles make room in memory.
	if err != nil && inFile && errors.Is(err, ErrFull) && s.mayEvict(principal, data) {
		if c := inMemory(); c != nil {
			return c, nil
		}
	}
	return c, err
}

// copyRows writes the rows of a table through a TableWriter.
func (s *Local) copyRows(principal, label string, t *table.Table, inFile bool, cancelled func() error) (*content, error) {
	// A table with a _row_id of its own keeps it.
	w := s.NewTable(principal, label, table.Options{KeepRowID: t.Has(table.RowID)})
	defer w.Abort()
	w.toFile = inFile
	for i, row := range t.Rows() {
		if i%1024 == 0 {
			if err := cancelled(); err != nil {
				return nil, err
			}
		}
		if err := w.Append(row); err != nil {
			return nil, err
		}
	}
	return w.finish()
}

// mayEvict reports whether handles can make room in memory for a deposit.
func (s *Local) mayEvict(principal string, size int64) bool {
	l := s.ledger
	_, err := l.lock()
	defer l.unlock()
	sp := l.spaces[principal]
	return err == nil && sp != nil && l.depositRoom(sp, size) == nil
}
