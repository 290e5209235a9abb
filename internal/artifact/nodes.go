package artifact

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"time"

	"github.com/weir-mcp/weir/internal/store"
	"github.com/weir-mcp/weir/s2sp/table"
)

// Nodes names the node of a cluster that a store is in, and reaches the stores of other nodes. Tokens and
// handles name the node that made them:
//
//	INC-RANDOM      INC: 6 letters and digits of the node's incarnation
//	art_INC…
//
//	Open of another node's handle ─▶ Fetch ─▶ a copy under the same handle, within the principal's bounds here
//	                                   └─ ErrNodeGone ─▶ Backup, if there is one ─▶ a copy
//
// All functions are called concurrently.
type Nodes struct {
	// Inc returns the incarnation of this node, "" for the only one: its tokens and handles name no node.
	Inc func() string
	// Rows returns the rows behind a token that the node with an INC made.
	Rows func(inc, token string) Source
	// Fetch returns the result of Lend at the node with an INC. The caller closes body. It fails with
	// ErrNodeGone if the node and its process are gone, and with the error of Lend there as an *Error.
	Fetch func(ctx context.Context, inc, principal, place, handle string) (head string, body io.ReadCloser, err error)
	// Backup gets a copy of each artifact with a handle, which outlasts the node. store.NoBlobs keeps none.
	Backup store.Blobs
	// Failed hears of artifacts that could not be copied there.
	Failed func(handle string, err error)
}

// ErrNodeGone says that the node of an artifact is gone.
var ErrNodeGone = errors.New("the node of the artifact is gone")

// incChars is the length of an INC.
const incChars = 6

// tokenMark stands between the INC and the random part of a token. Servers that check the form of a
// resource_url know letters, digits, "-" and "_".
const tokenMark = "-"

// onlyNode returns the Nodes of a store that no other node knows.
func onlyNode() *Nodes {
	return &Nodes{
		Inc:  func() string { return "" },
		Rows: func(string, string) Source { return goneRows{} },
		Fetch: func(context.Context, string, string, string, string) (string, io.ReadCloser, error) {
			return "", nil, ErrNodeGone
		},
		Backup: store.NoBlobs{},
		Failed: func(string, error) {},
	}
}

// goneRows are the rows of a node that is gone.
type goneRows struct{}

// Open implements Source.
func (goneRows) Open(context.Context, table.Selection, bool) (Rows, error) {
	return nil, fmt.Errorf("%w: its node is gone", ErrToken)
}

// mark returns the beginning of a token of this node.
func (n *Nodes) mark() string {
	inc := n.Inc()
	if inc == "" {
		return ""
	}
	return inc + tokenMark
}

// TokenNode returns the INC of the node that made a token, "" if the token names none.
func TokenNode(token string) string {
	if len(token) != incChars+len(tokenMark)+tokenChars || token[incChars:incChars+len(tokenMark)] != tokenMark || !isInc(token[:incChars]) {
		return ""
	}
	return token[:incChars]
}

func isInc(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return !(r >= 'a' && r <= 'z' || r >= '0' && r <= '9') })
}

// claimElsewhere claims the token of another node. The rows are at that node, which spends the token with
// the first of them. They cannot be returned to it.
func (s *Local) claimElsewhere(value string) (*Claim, error) {
	n, inc := s.opts.Nodes, TokenNode(value)
	if inc == "" || inc == n.Inc() {
		return nil, ErrToken
	}
	c := &content{budget: s.budget, source: n.Rows(inc, value), holders: 1}
	return &Claim{Lease: &Lease{c: c}, store: s, token: &token{item: &item{content: c, single: true}, claimed: true}}, nil
}

// handleNode returns the INC of the node that made a handle, "" if the handle names none.
func handleNode(handle string) string {
	rest, ok := strings.CutPrefix(handle, handlePrefix)
	if !ok || len(rest) != incChars+handleChars || !isInc(rest) {
		return ""
	}
	return rest[:incChars]
}

// foreign returns the INC in a handle that this store does not have and another node may have, "" if
// there is no such node. err says why this store does not have it.
func (n *Nodes) foreign(handle string, err error) string {
	if !errors.Is(err, ErrUnknown) && !errors.Is(err, ErrEvicted) {
		return ""
	}
	if inc := handleNode(handle); inc != n.Inc() {
		return inc
	}
	return ""
}

// maxHead bounds the description of an artifact that another node gives.
const maxHead = 4 << 10

// Lend opens an artifact for another node. head describes it to that node's store.
func (s *Local) Lend(ctx context.Context, principal, place, handle string) (head string, lease *Lease, err error) {
	if err := ctx.Err(); err != nil {
		return "", nil, err
	}
	it, a, c, err := s.find(owner{principal, place}, handle)
	if err != nil {
		return "", nil, err
	}
	r, left, err := s.ledger.record(it)
	if err == nil && left <= 0 {
		err = owner{principal, place}.unknown(handle)
	}
	if err != nil {
		c.drop()
		return "", nil, err
	}
	raw, err := json.Marshal(r)
	if err != nil {
		c.drop()
		return "", nil, err
	}
	lease, err = newLease(a, c)
	return string(raw), lease, err
}

// bring makes a copy of another node's artifact, under its handle.
func (s *Local) bring(ctx context.Context, by owner, inc, handle string) error {
	n := s.opts.Nodes
	select {
	case s.bringing <- struct{}{}:
		defer func() { <-s.bringing }()
	case <-ctx.Done():
		return ctx.Err()
	}
	head, body, err := n.Fetch(ctx, inc, by.principal, by.place, handle)
	if errors.Is(err, ErrNodeGone) {
		head, body, err = n.restore(ctx, by.principal, handle)
	}
	if err != nil {
		return err
	}
	defer func() { _ = body.Close() }() // all of it is read, or the copy is not made
	var r record
	if json.Unmarshal([]byte(head), &r) != nil || r.V != recordVersion || r.Principal != by.principal || r.Handle != handle || !by.opens(r.Place) || r.Size < 0 {
		return by.unknown(handle)
	}
	if r.Size > s.opts.MaxBytes {
		return s.opts.tooLarge(r.Size)
	}
	data := make([]byte, r.Size)
	if _, err := io.ReadFull(body, data); err != nil {
		return fmt.Errorf("reading the artifact %s of another node: %w", handle, err)
	}
	if sum := sha256.Sum256(data); hex.EncodeToString(sum[:]) != r.Hash {
		return damaged(handle)
	}
	c, err := s.budget.newContent(data, true)
	if err != nil {
		return err
	}
	c.isTable, c.rowID = r.Table, r.RowID
	return s.take(r, c)
}

// take adds a copy of another node's artifact. It takes over the caller's reference to c.
func (s *Local) take(r record, c *content) error {
	l := s.ledger
	now, err := l.lock()
	defer l.unlock()
	refuse := func(err error) error {
		l.dead = append(l.dead, c)
		return err
	}
	if err != nil {
		return refuse(err)
	}
	sp := l.space(r.Principal)
	if sp.items[r.Handle] != nil { // another call has brought it meanwhile
		return refuse(nil)
	}
	if !r.Expires.After(now) {
		err = owner{principal: r.Principal}.unknown(r.Handle)
	} else {
		err = l.makeRoom(sp, r.Size, now)
	}
	if err != nil {
		l.release(sp)
		return refuse(err)
	}
	it := &item{content: c, home: r.Place,
		Artifact: Artifact{Handle: r.Handle, MediaType: r.MediaType, SizeBytes: r.Size, Label: r.Label, Mark: r.Mark, ContentHash: r.Hash, Created: r.Created, Expires: r.Expires}}
	it.recent = sp.recent.PushFront(it)
	l.add(sp, it)
	return nil
}

// backupTime bounds how long a call waits for the copy of its result, and backupPause is how long no copies
// are made after one that failed.
const (
	backupTime  = 5 * time.Second
	backupPause = 10 * time.Second
)

// backupName returns the name of an artifact's copy.
func backupName(principal, handle string) string {
	return store.ResultKeys + store.Hash(principal+"\x00"+handle)
}

// back copies an artifact of this node to the backup. A copy that cannot be made is logged, and the
// artifact ends with its node.
func (s *Local) back(it *item) {
	n := s.opts.Nodes
	if n.Backup == (store.NoBlobs{}) {
		return // without the work of a copy
	}
	now := s.opts.Now()
	s.ledger.mu.Lock()
	due := it.Expires.After(it.backed) && !now.Before(s.ledger.noBackup)
	expires, principal, place := it.Expires, "", it.home
	if it.space != nil {
		principal = it.space.principal
	}
	s.ledger.mu.Unlock()
	if !due {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), backupTime)
	defer cancel()
	head, lease, err := s.Lend(ctx, principal, place, it.Handle)
	if err != nil {
		return // it has made room for newer ones
	}
	defer lease.Close()
	var length [2]byte
	length[0], length[1] = byte(len(head)>>8), byte(len(head))
	whole := io.MultiReader(bytes.NewReader(length[:]), strings.NewReader(head), lease.Reader())
	// A call that finds the bytes again makes them last longer. The copy lasts a quarter more, so that
	// most of these calls write nothing.
	spare := s.opts.TTL / 4
	err = n.Backup.Put(ctx, backupName(principal, it.Handle), whole, expires.Sub(now)+spare)
	s.ledger.mu.Lock()
	if err == nil {
		it.backed = expires.Add(spare)
	} else {
		s.ledger.noBackup = now.Add(backupPause)
	}
	s.ledger.mu.Unlock()
	if err != nil {
		n.Failed(it.Handle, err)
	}
}

// restore returns the copy of an artifact whose node is gone.
func (n *Nodes) restore(ctx context.Context, principal, handle string) (head string, body io.ReadCloser, err error) {
	gone := &Error{Kind: ErrUnknown, Handle: handle, Detail: fmt.Sprintf("the artifact %s is lost: its node is gone; make the call again", handle)}
	body, err = n.Backup.Open(ctx, backupName(principal, handle))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil, gone
	}
	if err != nil {
		return "", nil, err
	}
	var length [2]byte
	if _, err = io.ReadFull(body, length[:]); err == nil {
		raw := make([]byte, int(length[0])<<8|int(length[1]))
		if len(raw) > maxHead {
			err = errors.New("the description is too long")
		} else if _, err = io.ReadFull(body, raw); err == nil {
			return string(raw), body, nil
		}
	}
	_ = body.Close() // the first error is the one to report
	return "", nil, fmt.Errorf("reading the copy of the artifact %s: %w", handle, err)
}
