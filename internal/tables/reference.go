package tables

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/weir-mcp/weir/internal/artifact"
	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/dispatch"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/limit/memory"
	"github.com/weir-mcp/weir/internal/result"
	"github.com/weir-mcp/weir/internal/text"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/s2sp/plane"
	"github.com/weir-mcp/weir/s2sp/table"
)

// Bounds of the rows of a call.
const (
	previewRows   = 5
	maxTableBytes = 64 << 20 // of the rows of all references of a call; see maxBytes
)

// maxBytes bounds the rows of all references of a call. An eighth of limits.memory has room for all copies.
func maxBytes(ctx context.Context) int64 { return min(maxTableBytes, memory.Limit(ctx)/8) }

// reference is one reference, as it stands in the arguments.
type reference struct {
	place   *place // where it stands
	source  string
	rowIDs  []int
	query   table.Query
	grouped bool   // the query makes rows of groups
	schema  []byte // of the place, nil where it is not known
	shape          // that the place takes
}

// selection returns the rows and columns that the reference reads.
func (ref *reference) selection() table.Selection {
	return table.Selection{RowIDs: ref.rowIDs, Columns: columnsOf(ref.query)}
}

// columnsOf lists the columns that q may read, each once. Nil means all. A name in OrderBy is
// listed without its direction as well.
func columnsOf(q table.Query) []string {
	grouped := len(q.GroupBy) > 0 || len(q.Aggregate) > 0
	if len(q.Columns) == 0 && !grouped {
		return nil
	}
	var names []string
	add := func(name string) {
		if name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	for _, name := range q.GroupBy {
		add(name)
	}
	for _, a := range q.Aggregate {
		add(a.Column)
	}
	for _, c := range q.Where {
		add(c.Column)
	}
	if !grouped { // of groups, these are columns of the answer
		for _, name := range q.Columns {
			add(name)
		}
		for _, o := range q.OrderBy {
			add(o.Column)
			add(strings.TrimSuffix(strings.TrimSuffix(strings.TrimPrefix(o.Column, "-"), " desc"), " asc"))
		}
	}
	return names
}

// tableArgs are arguments that contain references.
type tableArgs struct {
	original json.RawMessage
	remote   []*place                   // references whose rows cannot be read without spending them
	wanted   map[string]table.Selection // by source: the union of all references to it
}

// Arguments returns the arguments with the references in them.
func (t *tableArgs) Arguments() json.RawMessage { return t.original }

// SetArguments replaces them.
func (t *tableArgs) SetArguments(args json.RawMessage) { t.original = args }

// Excuses reports whether err concerns only rows that were not available to the check.
func (t *tableArgs) Excuses(err error) bool {
	var ce *catalog.Error
	if len(t.remote) == 0 || !errors.As(err, &ce) || len(ce.Problems) == 0 {
		return false
	}
	for _, p := range ce.Problems {
		if !slices.ContainsFunc(t.remote, func(at *place) bool { return at.holds(p.Path) }) {
			return false
		}
	}
	return true
}

func refError(c *dispatch.Call, path, format string, args ...any) *result.Error {
	e := result.NewError(result.ArgsInvalid, fmt.Sprintf("%s: %s: %s", c.Entry.ID, path, fmt.Sprintf(format, args...)))
	e.Details = rawjson.AppendString([]byte(`{"tool_id":`), c.Entry.ID)
	e.Details = append(rawjson.AppendString(append(e.Details, `,"path":`...), path), '}')
	return e
}

// preview replaces each reference by a few rows, so that rows are validated like other arguments. It
// spends nothing.
func (t *Tables) preview(ctx context.Context, c *dispatch.Call) error {
	if !mayRefer(c.Args) || rawjson.Valid(c.Args) != nil {
		return nil
	}
	r := &resolver{tables: t, ctx: ctx, call: c, preview: true}
	args, err := r.resolve(c.Args)
	r.close(false)
	if err == nil && r.found {
		c.Refs = &tableArgs{original: c.Args, remote: r.remote, wanted: r.wanted}
		c.Args = args
	}
	return err
}

// fill replaces each reference by all its rows, once for all attempts of the call.
func (t *Tables) fill(ctx context.Context, c *dispatch.Call) error {
	refs, ok := c.Refs.(*tableArgs)
	if !ok {
		return nil
	}
	r := &resolver{tables: t, ctx: ctx, call: c, wanted: refs.wanted}
	fits := false
	defer func() { r.close(fits) }()
	args, err := r.resolve(refs.original)
	if err != nil {
		return err
	}
	if len(refs.remote) > 0 { // fetched rows are checked now
		preview := &resolver{tables: t, ctx: ctx, call: c, preview: true, known: r.known, wanted: r.wanted}
		some, err := preview.resolve(refs.original)
		if err != nil {
			return err
		}
		if err := t.Validate(ctx, c.Entry, some); err != nil {
			return dispatch.ArgsError(ctx, c, err, t.Store)
		}
	}
	c.Args, c.Key = args, r.key
	fits = true
	return nil
}

// resolver replaces the references of one call.
type resolver struct {
	tables  *Tables
	ctx     context.Context
	call    *dispatch.Call
	preview bool // a few rows; nothing is spent

	known  map[string]*table.Table    // by source
	wanted map[string]table.Selection // by source
	ends   []func(spend bool)
	found  bool
	remote []*place
	size   int64
	key    []byte // the arguments with hashes for rows, for the cache
}

func (r *resolver) schemas() dispatch.Schemas {
	return dispatch.Schemas{Root: r.call.Entry.InputSchema}
}

// close releases the sources. If the call is made, it spends those that work once.
func (r *resolver) close(spend bool) {
	for _, end := range r.ends {
		end(spend)
	}
	r.ends = nil
}

// resolve returns args with rows in the place of references.
func (r *resolver) resolve(args []byte) ([]byte, error) {
	if r.known == nil {
		r.known = map[string]*table.Table{}
	}
	refs, tooDeep, err := findTables(args, r.schemas())
	switch {
	case err != nil:
		return nil, err
	case tooDeep != nil:
		return nil, refError(r.call, tooDeep.path(), "a %s reference stands more than %d levels deep", tableKey, maxTableDepth)
	case len(refs) > maxTableRefs:
		return nil, refError(r.call, refs[maxTableRefs].path(), "it is one of %d %s references, and a call may have %d", len(refs), tableKey, maxTableRefs)
	case len(refs) == 0:
		r.key = args
		return args, nil
	}
	r.found = true
	rows := make([]filled, 0, len(refs))
	size := int64(len(args))
	for _, ref := range refs {
		f, err := r.reference(args[ref.start:ref.end], ref.place)
		if err != nil {
			return nil, err
		}
		f.end = ref.end
		rows = append(rows, f)
		size += f.size
	}
	return r.write(args, rows, size)
}

// copies is how often the rows of a call are there at a time: in its arguments, in the params of the server,
// and in the message that goes to it.
const copies = 3

// write returns args with rows in the place of references. It takes the bytes of all copies before it makes
// the first, and never has more than one itself.
func (r *resolver) write(args []byte, rows []filled, size int64) ([]byte, error) {
	reserve := size
	if !r.preview {
		reserve = copies*size + 2*int64(len(r.call.Request.Params)) + memory.Free
	}
	if err := memory.Reserve(r.ctx, reserve); err != nil {
		return nil, r.noRoom(err)
	}
	if err := memory.Take(r.ctx, size); err != nil {
		return nil, r.noRoom(err)
	}
	out, key := make([]byte, 0, size), make([]byte, 0, len(args)) // a hash takes about the room of a reference
	rest := 0                                                     // args up to here are in out
	for _, f := range rows {
		between := args[rest:f.at.start]
		out, key = append(out, between...), append(key, between...)
		var name []byte
		out, name = r.append(out, f)
		key = append(key, name...)
		rest = f.end
	}
	r.key = append(key, args[rest:]...)
	return append(out, args[rest:]...), nil
}

// noRoom returns the error for rows that limits.memory has no room for.
func (r *resolver) noRoom(err error) error {
	return dispatch.Classify(r.ctx, r.call.Entry.Upstream, mcp.NoRoom("the rows of "+r.call.Entry.ID, err))
}

// append appends the rows of one reference, and returns their key in the cache.
func (r *resolver) append(out []byte, f filled) (next, key []byte) {
	if r.preview {
		return f.shape.append(out, f.view, nil), nil
	}
	sum := sha256.New()
	out = f.shape.append(out, f.view, sum)
	return out, append(rawjson.AppendString([]byte(`{"`+tableKey+`":`), hex.EncodeToString(sum.Sum(nil))), '}')
}

// filled is a reference and the rows that take its place: args[at.start:end].
type filled struct {
	at   *place
	end  int
	view table.View
	shape
	size int64 // in args
}

// reference finds the rows of one reference.
func (r *resolver) reference(v []byte, at *place) (filled, error) {
	ref, err := r.parse(v, at)
	if err != nil {
		return filled{}, err
	}
	f := filled{at: at, shape: ref.shape}
	r.want(ref)
	t := r.known[ref.source]
	if t == nil {
		if t, err = r.open(ref); err != nil {
			return f, r.failed(ref, err)
		}
		if t == nil { // not here, and reading would spend it
			r.remote = append(r.remote, at)
			f.size, err = f.shape.size(r.ctx, f.view, 0)
			return f, err
		}
		r.known[ref.source] = t
	}
	if f.view, err = r.choose(ref, t); err != nil {
		return f, err
	}
	if r.preview {
		f.view = f.view.Slice(0, r.previewed(ref, f.view.Len()))
	}
	size := f.view.JSONSize()
	most := maxBytes(r.ctx)
	if r.size += size; r.size > most {
		return f, refError(r.call, at.path(), "its rows have %d bytes, and all rows of a call may have %d; choose rows with row_ids, where or limit, or columns", size, most)
	}
	if err := f.shape.fits(f.view); err != nil {
		return f, refError(r.call, at.path(), "%v", err)
	}
	if f.size, err = f.shape.size(r.ctx, f.view, size); err != nil {
		return f, r.noRoom(err)
	}
	return f, nil
}

// want adds the rows that a reference requests. A source is opened once, for all its references.
func (r *resolver) want(ref *reference) {
	if !r.preview || r.known[ref.source] != nil {
		return
	}
	if r.wanted == nil {
		r.wanted = map[string]table.Selection{}
	}
	sel, more := r.wanted[ref.source]
	if more {
		sel = sel.Union(ref.selection())
	} else {
		sel = ref.selection()
	}
	r.wanted[ref.source] = sel
}

// previewed returns how many of n rows are checked: a few, and as many as the limits of the schema
// require.
func (r *resolver) previewed(ref *reference, n int) int {
	some := previewRows
	for _, bound := range []string{"minItems", "maxItems"} {
		if limit, err := strconv.Atoi(string(r.schemas().At(ref.schema, bound))); err == nil && limit < 10_000 {
			some = max(some, limit+1)
		}
	}
	return min(some, n)
}

func (r *resolver) parse(v []byte, at *place) (*reference, error) {
	ref := &reference{place: at, schema: at.lookup(r.schemas())}
	seen := map[string]bool{}
	query := []byte{'{'}
	var ids []byte
	var failed error
	err := rawjson.EachMember(v, func(m rawjson.Member) bool {
		key := string(m.Key)
		if seen[key] {
			failed = refError(r.call, at.path(), "key %q comes twice", text.Fit(key, maxKeyChars))
			return false
		}
		seen[key] = true
		switch {
		case key == tableKey:
			ref.source, failed = rawjson.String(m.Value)
			if ref.source = strings.TrimSpace(ref.source); failed != nil || ref.source == "" {
				failed = refError(r.call, at.path(), "%s must be a handle or a resource_url, not %s", tableKey, text.Value(m.Value))
			}
		case key == "row_ids":
			ids = m.Value
		case slices.Contains(result.TableParams, key):
			if len(query) > 1 {
				query = append(query, ',')
			}
			query = append(append(rawjson.AppendString(query, key), ':'), m.Value...)
		default:
			failed = refError(r.call, at.path(), "%q is no member of a %s reference, whose members are %s, row_ids, %s",
				text.Fit(key, maxKeyChars), tableKey, tableKey, strings.Join(result.TableParams, ", "))
		}
		return failed == nil
	})
	if err = errors.Join(failed, err); err != nil {
		return nil, err
	}
	if ref.query, err = table.ParseQuery(append(query, '}')); err != nil {
		return nil, refError(r.call, at.path(), "%v", err)
	}
	if !seen["limit"] {
		ref.query.Limit = 0
	}
	ref.grouped = len(ref.query.GroupBy) > 0 || len(ref.query.Aggregate) > 0
	if ids != nil {
		req, err := plane.ParseRequest(rawjson.Object("row_ids", ids))
		if bad := (*plane.RequestError)(nil); errors.As(err, &bad) {
			return nil, refError(r.call, at.path(), "%s", bad.Reason)
		}
		if err != nil {
			return nil, refError(r.call, at.path(), "%v", err)
		}
		ref.rowIDs = req.RowIDs
	}
	if ref.shape, err = shapeOf(r.schemas(), ref.schema, at); err != nil {
		return nil, refError(r.call, at.path(), "%v", err)
	}
	return ref, nil
}

// leaseTable reads an artifact as a table. If it is the answer of a resource tool, the rows are its
// abstract.
// The call of ctx takes its index.
func leaseTable(ctx context.Context, l *artifact.Lease) (*table.Table, error) {
	var failed error
	opts := result.TableOptions(l.MediaType, func() (data []byte) {
		data, failed = l.Bytes(ctx)
		return data
	})
	if failed != nil {
		return nil, failed
	}
	opts.Grow = memory.Taker(ctx)
	return l.Table(opts)
}
