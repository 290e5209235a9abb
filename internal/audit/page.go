package audit

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weir-mcp/weir/internal/json/rawjson"
)

// Bounds of one page.
const (
	pageDefault = 100
	// MaxPage is the largest number of records of a page.
	MaxPage      = 1000
	maxPageBytes = 4 << 20
	// maxPageFiles bounds the segments that are read for a page. Where few records match, a page may
	// be short, or empty, although there are more.
	maxPageFiles = 4
)

// Query selects records of a log.
type Query struct {
	// Forward asks for the first records after After. Otherwise the last ones before Before are
	// asked for; with a Before of 0, the last ones of the log.
	Forward       bool
	After, Before uint64
	Limit         int // 0: 100; at most MaxPage

	// A record must have all of these that are set. Tool may leave out the version and the hash of a
	// tool_id. Since is inclusive, Until is not.
	Kind, Principal, Server, Tool string
	Since, Until                  time.Time
}

// Page is a part of a log, in its order.
type Page struct {
	Records []json.RawMessage `json:"records"`
	// Older is the Query.Before of the page before this one; 0: there is none.
	Older uint64 `json:"older,omitempty"`
	// Newer is the Query.After of the page after this one, which may have no records yet.
	Newer uint64 `json:"newer"`
}

// Page returns the records of the log that a query selects. It checks no hashes. It reads at most a
// few files, so a client that wants all records asks until Older is 0, or Newer stays the same.
func (l *Log) Page(ctx context.Context, q Query) (Page, error) {
	q.Limit = min(cmp.Or(max(q.Limit, 0), pageDefault), MaxPage)
	list, err := segments(l.opts.Dir)
	if err != nil {
		return Page{}, err
	}
	p := pager{ctx: ctx, q: q, page: Page{Records: []json.RawMessage{}, Newer: q.After}}
	if q.Forward {
		err = p.forward(list)
	} else {
		err = p.backward(list)
	}
	return p.page, err
}

// pager makes one page.
type pager struct {
	ctx   context.Context
	q     Query
	page  Page
	bytes int
	files int
	buf   []byte
}

// forward fills the page with records after a number.
func (p *pager) forward(list []segment) error {
	for i, s := range list {
		if i+1 < len(list) {
			if next, err := firstLine(list[i+1].path); err == nil && next.seq <= p.q.After+1 {
				continue
			}
		}
		full := false
		err := p.each(s, func(seq uint64, raw []byte) bool {
			if seq <= p.q.After {
				return true
			}
			if p.q.matches(raw) {
				if full = !p.fits(raw); full {
					return false
				}
				p.page.Records = append(p.page.Records, bytes.Clone(raw))
			}
			p.page.Newer = seq
			return true
		})
		if err != nil || full || p.files == maxPageFiles {
			return err
		}
	}
	return nil
}

// backward fills the page with the last records before a number, the newest file first.
func (p *pager) backward(list []segment) error {
	for i := len(list) - 1; i >= 0; i-- {
		first, err := firstLine(list[i].path)
		if err != nil || p.q.Before > 0 && first.seq >= p.q.Before {
			continue // it has just started, was deleted, or is newer
		}
		var found []json.RawMessage
		cut := uint64(0) // the last record that found no room
		err = p.each(list[i], func(seq uint64, raw []byte) bool {
			if p.q.Before > 0 && seq >= p.q.Before {
				return false
			}
			p.page.Newer = max(p.page.Newer, seq)
			if !p.q.matches(raw) {
				return true
			}
			for len(found) > 0 && !p.room(len(found), len(raw)) {
				p.bytes -= len(found[0])
				found, cut = found[1:], seqOf(found[0])
			}
			if p.room(len(found), len(raw)) || len(found)+len(p.page.Records) == 0 {
				found, p.bytes = append(found, bytes.Clone(raw)), p.bytes+len(raw)
			} else {
				cut = seq
			}
			return true
		})
		if err != nil {
			return err
		}
		p.page.Records = append(found, p.page.Records...)
		switch {
		case cut > 0:
			p.page.Older = cut + 1
			return nil
		case i > 0 && !p.q.Since.IsZero() && list[i].day < dayOf(p.q.Since):
			return nil // all before it is older
		case i > 0 && (p.files == maxPageFiles || len(p.page.Records) == p.q.Limit):
			p.page.Older = first.seq
			return nil
		}
	}
	return nil
}

// room reports whether a record of a size fits in the page with n records of the file that is read.
func (p *pager) room(n, size int) bool {
	return n+len(p.page.Records) < p.q.Limit && p.bytes+size <= maxPageBytes
}

// fits counts a record if it fits in the page.
func (p *pager) fits(raw []byte) bool {
	if len(p.page.Records) > 0 && !p.room(0, len(raw)) {
		return false
	}
	p.bytes += len(raw)
	return true
}

// each calls f for the records of a segment. A segment that was deleted meanwhile has none.
func (p *pager) each(s segment, f func(seq uint64, raw []byte) bool) error {
	p.files++
	n := 0
	_, err := eachOf(s.path, &p.buf, func(raw []byte) bool {
		if n++; n%1024 == 0 && p.ctx.Err() != nil {
			return false
		}
		return f(seqOf(raw), raw)
	})
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return cmp.Or(p.ctx.Err(), err)
}

// seqOf returns the number of a record, which its line starts with.
func seqOf(raw []byte) uint64 {
	rest, _ := bytes.CutPrefix(raw, []byte(`{"seq":`))
	digits, _, _ := bytes.Cut(rest, []byte{','})
	seq, _ := strconv.ParseUint(string(digits), 10, 64) // 0 for a line that is no record
	return seq
}

// filterKeys are the members that a Query looks at.
var filterKeys = []string{"kind", "principal", "server", "tool_id", "time"}

// matches reports whether a record matches the query.
func (q *Query) matches(raw []byte) bool {
	if q.Kind+q.Principal+q.Server+q.Tool == "" && q.Since.IsZero() && q.Until.IsZero() {
		return true
	}
	var is [5][]byte
	if rawjson.Fields(raw, filterKeys, is[:]) != nil {
		return false
	}
	for i, want := range []string{q.Kind, q.Principal, q.Server} {
		if want != "" && rawjson.Text(is[i]) != want {
			return false
		}
	}
	if rest, named := strings.CutPrefix(rawjson.Text(is[3]), q.Tool); !named || q.Tool != "" && rest != "" && rest[0] != '@' && rest[0] != '#' {
		return false
	}
	if q.Since.IsZero() && q.Until.IsZero() {
		return true
	}
	at, err := time.Parse(time.RFC3339Nano, rawjson.Text(is[4]))
	return err == nil && !at.Before(q.Since) && (q.Until.IsZero() || at.Before(q.Until))
}

// Kinds returns all kinds of records.
func Kinds() []Kind {
	return slices.Concat([]Kind{SignIn, Refusal, Begin, End, View, Approval, Credential, Definition, Config, Role},
		[]Kind{segmentKind, startKind, stopKind, signatureKind, droppedKind, recoveredKind, deletedKind})
}
