package plane

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weir-mcp/weir/internal/artifact"
	"github.com/weir-mcp/weir/internal/columnar"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/limit/memory"
	"github.com/weir-mcp/weir/s2sp/table"
)

// Media types that the endpoint writes.
const (
	TypeJSON   = "application/json"
	TypeNDJSON = "application/x-ndjson"
	TypeArrow  = "application/vnd.apache.arrow.stream"

	typeCSV     = "text/csv"
	typeParquet = "application/vnd.apache.parquet"
)

// forms returns the media types that this program writes, in the order in which messages list them.
func forms() []string {
	all := []string{TypeJSON, TypeNDJSON, typeCSV, TypeArrow, typeParquet}
	if !columnar.Supported() {
		return all[:3]
	}
	return all
}

// HandlerOptions change how resources are served. The zero value is ready to use.
type HandlerOptions struct {
	// Detect says how an artifact that was not written as a table is read.
	Detect table.DetectOptions
	// MaxRequest bounds the bytes of a request; 0 is 10 MB.
	MaxRequest int64
	// Stall bounds one write to a reader, and the time in which the request must arrive; 0 means a
	// minute.
	Stall time.Duration
	// Refused is called with the reason of each refused fetch, before its answer is sent, possibly
	// concurrently; nil discards the reasons. The reason names the fix.
	Refused func(token, reason string)
	// Logger gets served requests, at debug level; nil discards them. Tokens are not logged.
	Logger *slog.Logger
}

// Handler serves the data plane of a server (spec/tables §3):
//
//	POST /s2sp/data/{token}   {"row_ids": [0, 2], "columns": ["description"]}   both optional, empty is all
//	  200  {"body": [{"_row_id": 0, "description": …}, …], "total_rows": 2, "columns_returned": ["_row_id", "description"]}
//	  400  the request is no JSON object of this kind; the token is not spent
//	  404  {"error": "Unknown or expired resource"}: unknown, used, in use or expired; nothing of the request's body is read
//	  405  any other method
//	  406  Accept names no form that is there; the token is not spent
//	  409  only what an earlier reader asked for, who went away, is left; the token is not spent
//	  502  the rows are elsewhere, and what is there cannot be used
//	  503  the rows are elsewhere, and cannot be had now; the token is not spent
//	GET  /s2sp/health         {"status": "ok"}
//
// Each refusal has the reason in its member error.
//
// Rows have the table's order, _row_id first. With "Accept: application/x-ndjson" the rows are one
// object a line, with "text/csv" CSV, with "application/vnd.apache.arrow.stream" an Arrow IPC stream, and
// with "application/vnd.apache.parquet" a Parquet file. A program that does not import package s2sp/columnar
// has neither of the last two forms.
//
// Rows and columns that do not exist are omitted. With "Prefer: handling=strict" (RFC 7240) such a
// column is a 400 that lists the existing columns, and the token is not spent.
//
// A request claims its token before it reads the table and spends it with the first byte of the
// body. If the reader goes away before that, the token stays unspent. Expiry during the body does
// not interrupt it.
//
// Rows that are elsewhere (artifact.Source) are passed on as they arrive, in any number. Their
// source spends its own token with the first byte of its answer. If the reader is gone by then, the
// store keeps the answer for the next one. CSV, Arrow and Parquet start with columns or types that
// depend on all rows, so rows in these forms are stored first.
func Handler(tokens artifact.Tokens, opts HandlerOptions) http.Handler {
	if opts.MaxRequest <= 0 {
		opts.MaxRequest = 10 << 20
	}
	if opts.Stall <= 0 {
		opts.Stall = time.Minute
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	e := &endpoint{tokens, opts}
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+Path+"{token}", e.fetch)
	mux.HandleFunc("GET /s2sp/health", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusOK, []byte(`{"status":"ok"}`))
	})
	mux.HandleFunc(Path+"{token}", only(http.MethodPost))
	mux.HandleFunc("/s2sp/health", only(http.MethodGet))
	mux.HandleFunc("/s2sp/", func(w http.ResponseWriter, _ *http.Request) { refuse(w, http.StatusNotFound, unknown) })
	return mux
}

const unknown = "Unknown or expired resource"

func only(method string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Allow", method)
		refuse(w, http.StatusMethodNotAllowed, "method not allowed; use "+method)
	}
}

type endpoint struct {
	tokens artifact.Tokens
	opts   HandlerOptions
}

// refuse answers a fetch with the reason why it gets no rows.
func (e *endpoint) refuse(w http.ResponseWriter, r *http.Request, status int, message string) {
	if e.opts.Refused != nil {
		why := message
		if message == unknown {
			why = "unknown or expired resource: a resource_url works once, and not for long; call the tool that gave it again"
		}
		e.opts.Refused(r.PathValue("token"), why)
	}
	refuse(w, status, message)
}

// answer writes a small JSON document. A client that does not take it is gone.
func answer(w http.ResponseWriter, status int, body []byte) {
	h := w.Header()
	h.Set("Content-Type", TypeJSON)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

func refuse(w http.ResponseWriter, status int, message string) {
	answer(w, status, append(rawjson.AppendString([]byte(`{"error":`), message), '}'))
}

// Request is a selection of rows and columns. Empty means all.
type Request = table.Selection

// ErrRequest matches every [RequestError] in [errors.Is].
var ErrRequest = errors.New("bad request")

// A RequestError is a fault of the body of a fetch.
type RequestError struct{ Reason string }

// Error implements error.
func (e *RequestError) Error() string { return ErrRequest.Error() + ": " + e.Reason }

// Is implements errors.Is.
func (e *RequestError) Is(target error) bool { return target == ErrRequest }

func badRequest(format string, args ...any) *RequestError {
	return &RequestError{Reason: fmt.Sprintf(format, args...)}
}

// ParseRequest reads the body of a fetch; an empty one asks for everything.
func ParseRequest(body []byte) (Request, error) {
	var req Request
	if body = bytes.TrimSpace(body); len(body) == 0 {
		return req, nil
	}
	if err := rawjson.Valid(body); err != nil {
		return req, badRequest("the body is no JSON: %v", err)
	}
	if body[0] != '{' {
		return req, badRequest("the body must be an object with row_ids and columns")
	}
	var rowIDs, columns []byte
	if err := rawjson.Scan(body, rawjson.Key("row_ids", &rowIDs), rawjson.Key("columns", &columns)); err != nil {
		return req, badRequest("%v", err)
	}
	err := each("row_ids", rowIDs, func(v []byte) error {
		text := v
		if v[0] == '"' { // some agents write "3"
			text = v[1 : len(v)-1]
		}
		id, ok := rawjson.Int(text)
		if !ok {
			return badRequest("row_ids must be whole numbers, not %.40s", v)
		}
		req.RowIDs = append(req.RowIDs, id)
		return nil
	})
	if err != nil {
		return req, err
	}
	err = each("columns", columns, func(v []byte) error {
		name, err := rawjson.String(v)
		if err != nil {
			return badRequest("columns must be strings, not %.40s", v)
		}
		req.Columns = append(req.Columns, name)
		return nil
	})
	return req, err
}

func each(param string, array []byte, f func([]byte) error) error {
	if len(array) == 0 || array[0] == 'n' {
		return nil
	}
	if array[0] != '[' {
		return badRequest("%s must be an array", param)
	}
	var failed error
	err := rawjson.EachElement(array, func(v []byte) bool {
		failed = f(v)
		return failed == nil
	})
	return errors.Join(failed, err)
}

// check returns an error if a table lacks one of the requested columns.
func check(req Request, columns []string) *RequestError {
	known := make(map[string]bool, len(columns))
	for _, name := range columns {
		known[name] = true
	}
	for _, name := range req.Columns {
		if name != table.RowID && !known[name] {
			return badRequest("there is no column %.100q; %s", name, there(columns))
		}
	}
	return nil
}

// preferStrict requests an error for columns that do not exist.
const preferStrict = "handling=strict"

// strict reports whether a request has preferStrict.
func strict(h http.Header) bool {
	for _, header := range h.Values("Prefer") {
		for part := range strings.SplitSeq(header, ",") {
			preference, _, _ := strings.Cut(part, ";")
			name, value, _ := strings.Cut(preference, "=")
			if strings.EqualFold(strings.TrimSpace(name), "handling") && strings.Trim(strings.TrimSpace(value), `"`) == "strict" {
				return true
			}
		}
	}
	return false
}

// read reads the body of a request, and counts it until room is released.
func (e *endpoint) read(w http.ResponseWriter, r *http.Request) (data []byte, room *memory.Block, err error) {
	body := http.MaxBytesReader(w, r.Body, e.opts.MaxRequest)
	buf := memory.Owner(r.Context()).NewBuffer(r.Context(), math.MaxInt64) // body has the bound
	if err = buf.Fill(body, r.ContentLength); err != nil {
		buf.Drop()
		return nil, nil, err
	}
	if room, err = buf.Block(); err != nil {
		return nil, nil, err
	}
	if data, err = room.Open(r.Context()); err != nil {
		room.Release()
		return nil, nil, err
	}
	return data, room, nil
}

// Bounds of the body of a refused request that is read, so that its connection serves the next one: a request for rows
// has a few hundred bytes, which come with its head, and nodes of a cluster hand many of them on.
const (
	maxDiscard  = 4 << 10
	discardTime = 100 * time.Millisecond
)

// discard reads the body of a refused request, if that is small and there, and reports whether nothing of it is left.
func discard(control *http.ResponseController, r *http.Request) bool {
	if r.ContentLength == 0 {
		return true
	}
	if r.ContentLength < 0 || r.ContentLength > maxDiscard || r.Header.Get("Expect") != "" || control.SetReadDeadline(time.Now().Add(discardTime)) != nil {
		return false
	}
	_, err := io.Copy(io.Discard, r.Body)
	_ = control.SetReadDeadline(time.Time{})
	return err == nil
}

func (e *endpoint) fetch(w http.ResponseWriter, r *http.Request) {
	control := http.NewResponseController(w)
	token := r.PathValue("token")
	if err := e.tokens.Check(token); errors.Is(err, artifact.ErrToken) {
		if !discard(control, r) {
			// Else net/http waits for the body, or its first 256 KB, before it lets the answer go.
			w.Header().Set("Connection", "close")
		}
		e.refuse(w, r, http.StatusNotFound, unknown)
		return
	}
	// Not every ResponseWriter has deadlines; the server's own has.
	_ = control.SetReadDeadline(time.Now().Add(e.opts.Stall))
	body, room, err := e.read(w, r)
	defer room.Release()
	if err != nil {
		if full := (*memory.Error)(nil); errors.As(err, &full) {
			w.Header().Set("Connection", "close")
			e.refuse(w, r, http.StatusServiceUnavailable, full.Error())
			return
		}
		if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
			e.refuse(w, r, http.StatusRequestEntityTooLarge, fmt.Sprintf("the request has more than %d bytes", tooLarge.Limit))
			return
		}
		e.refuse(w, r, http.StatusBadRequest, "the request ended early")
		return
	}
	_ = control.SetReadDeadline(time.Time{})
	req, err := ParseRequest(body)
	if err != nil {
		e.refuse(w, r, http.StatusBadRequest, err.Error())
		return
	}
	if choose(r.Header.Values("Accept")) == "" {
		e.refuse(w, r, http.StatusNotAcceptable, "rows come as "+strings.Join(forms(), ", ")+"; Accept names none of these")
		return
	}
	claim, err := e.tokens.Claim(r.Context(), token)
	switch {
	case errors.Is(err, artifact.ErrToken):
		e.refuse(w, r, http.StatusNotFound, unknown)
		return
	case err != nil:
		e.opts.Logger.Warn("s2sp: a resource cannot be claimed", "error", err)
		e.refuse(w, r, http.StatusServiceUnavailable, "the resource cannot be read now")
		return
	}
	defer claim.Close()
	if limit, limited := claim.Limited(); limited && !req.Within(limit) {
		e.refuse(w, r, http.StatusConflict, limitedTo(limit))
		return
	}
	if claim.Elsewhere() {
		e.passOn(w, r, control, claim, req)
		return
	}
	t, err := claim.Table(e.opts.Detect)
	if err != nil {
		e.opts.Logger.Warn("s2sp: a resource is no table", "label", claim.Label, "error", err)
		e.refuse(w, r, http.StatusInternalServerError, "the resource is no table")
		return
	}
	if strict(r.Header) {
		if err := check(req, t.Columns()); err != nil {
			e.refuse(w, r, http.StatusBadRequest, err.Reason)
			return
		}
	}
	view := req.Select(t)
	if r.Context().Err() != nil {
		return // the connection is broken: the token stays unspent
	}
	e.serve(w, r, control, claim, view)
}

// serve writes a view of rows that are here.
func (e *endpoint) serve(w http.ResponseWriter, r *http.Request, control *http.ResponseController, claim *artifact.Claim, view table.View) {
	out := &bodyWriter{w: w, control: control, stall: e.opts.Stall, spend: claim.Spend}
	err := e.write(r.Context(), out, r.Header.Values("Accept"), view)
	e.opts.Logger.Debug("s2sp: served", "label", claim.Label, "rows", view.Len(), "bytes", out.written, "error", err)
	if full := (*memory.Error)(nil); errors.As(err, &full) && out.written == 0 { // the status is not sent
		e.refuse(w, r, http.StatusServiceUnavailable, full.Error())
		return
	}
	if err != nil {
		// The status is sent already: only a broken connection shows the reader that rows are
		// missing.
		panic(http.ErrAbortHandler)
	}
	claim.Spend() // also where the body is empty
}

// write sends the headers and the rows.
func (e *endpoint) write(ctx context.Context, out *bodyWriter, accept []string, view table.View) error {
	h := out.w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	kind := choose(accept)
	h.Set("Content-Type", kind)
	h.Set("Vary", "Accept")
	var tail []byte
	if kind == TypeJSON {
		tail = strconv.AppendInt([]byte(`,"total_rows":`), int64(view.Len()), 10)
		tail = appendNames(append(tail, `,"columns_returned":`...), view.Columns())
		tail = append(tail, '}')
		h.Set("Content-Length", strconv.FormatInt(int64(len(bodyHead))+view.JSONSize()+int64(len(tail)), 10))
	}
	begin := func() error {
		out.deadline()
		out.w.WriteHeader(http.StatusOK)
		// The headers go first, without the body, so that a connection that is broken by now shows
		// before a byte of the body is written.
		if err := cmp.Or(out.flush(), ctx.Err()); err != nil {
			return fmt.Errorf("writing headers: %w", err)
		}
		return nil
	}
	if kind == typeParquet {
		_, err := view.WriteParquet(out, func(bytes int64) error { return cmp.Or(memory.Take(ctx, bytes), begin()) })
		return err
	}
	if err := begin(); err != nil {
		return err
	}
	switch kind {
	case TypeNDJSON:
		_, err := view.WriteNDJSON(out)
		return err
	case TypeArrow:
		_, err := view.WriteArrow(out)
		return err
	case typeCSV:
		_, err := view.WriteCSV(out)
		return err
	}
	out.head = bodyHead
	if _, err := view.WriteJSON(out); err != nil {
		return err
	}
	_, err := out.Write(tail)
	return err
}

const bodyHead = `{"body":`

// bodyWriter writes a body and spends the token with its first byte.
type bodyWriter struct {
	w       http.ResponseWriter
	control *http.ResponseController
	stall   time.Duration
	spend   func()
	head    string // starts the body
	written int64
}

func (b *bodyWriter) deadline() { _ = b.control.SetWriteDeadline(time.Now().Add(b.stall)) }

func (b *bodyWriter) flush() error {
	if err := b.control.Flush(); !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	return nil
}

// Write implements io.Writer. It sends the beginning of the body separately: bytes in the buffer of
// a broken connection have not been written.
func (b *bodyWriter) Write(p []byte) (int, error) {
	b.deadline()
	begun := 0 // bytes of p
	if b.written == 0 && len(p) > 0 {
		first := []byte(b.head)
		if len(first) == 0 {
			begun = 1
			first = p[:1]
		}
		n, err := b.w.Write(first)
		if err == nil {
			if err = b.flush(); err != nil {
				n = 0
			}
		}
		if b.written = int64(n); n > 0 {
			b.spend()
		}
		if err != nil {
			return 0, err
		}
	}
	n, err := b.w.Write(p[begun:])
	b.written += int64(n)
	return begun + n, err
}

// choose returns the available media type that the reader prefers, JSON if it names none, and "" if
// it accepts only others.
func choose(accept []string) string {
	best, liked := TypeJSON, 0.0
	for _, header := range accept {
		for part := range strings.SplitSeq(header, ",") {
			kind, params, err := mime.ParseMediaType(strings.TrimSpace(part))
			if err != nil {
				continue
			}
			if liked == 0 {
				best = "" // it names one
			}
			q := 1.0
			if s, ok := params["q"]; ok {
				if q, err = strconv.ParseFloat(s, 64); err != nil {
					continue
				}
			}
			switch kind {
			case "*/*", "application/*":
				kind = TypeJSON
			case "text/*":
				kind = typeCSV
			}
			if !slices.Contains(forms(), kind) {
				continue
			}
			if q > liked {
				best, liked = kind, q
			}
		}
	}
	return best
}
