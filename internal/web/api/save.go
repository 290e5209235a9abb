package api

import (
	"io"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weir-mcp/weir/internal/identity"
	"github.com/weir-mcp/weir/internal/net/guard"
	"github.com/weir-mcp/weir/internal/text"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/s2sp/table"
)

// A form is one in which rows are saved.
type form struct {
	name, mediaType string
	write           func(table.View, io.Writer) (int64, error)
}

// formParquet is the form of which a group of rows is held while it is written.
const formParquet = "parquet"

// forms are the forms of a file. The first one is the default for tables.
var forms = []form{
	{"csv", "text/csv; charset=utf-8", table.View.WriteCSV},
	{"sheet", "text/csv; charset=utf-8", table.View.WriteSheet},
	{"tsv", "text/tab-separated-values; charset=utf-8", table.View.WriteTSV},
	{"json", "application/json", table.View.WriteJSON},
	{"ndjson", "application/x-ndjson", table.View.WriteNDJSON},
	{"arrow", "application/vnd.apache.arrow.stream", table.View.WriteArrow},
	{formParquet, "application/vnd.apache.parquet", nil},
}

// formBytes is the form of a kept result, byte for byte.
const formBytes = "bytes"

// formNames are the values of the parameter format.
func formNames() string {
	names := make([]string, 0, len(forms)+1)
	for _, f := range forms {
		names = append(names, f.name)
	}
	return strings.Join(append(names, formBytes), ", ")
}

// saver serves kept results as files.
type saver struct{ kept Artifacts }

// save serves artifacts/{handle}/file: the rows of all pages in a form, as they are written, or the
// kept result byte for byte.
//
//	format=                              csv, sheet (csv in which nothing is a formula), tsv, json, ndjson, arrow, parquet or bytes; csv without it
//	columns=, where=, order_by=, …       as of artifacts/{handle}
//
// If the connection or the writing fails midway, the connection ends before the end of the body, so
// that no client takes a part for the whole.
func (s saver) save(w http.ResponseWriter, r *http.Request) error {
	name := r.URL.Query().Get("format")
	if name == "" {
		name = forms[0].name
	}
	at := slices.IndexFunc(forms, func(f form) bool { return f.name == name })
	if at < 0 && name != formBytes {
		return mcp.Errorf(mcp.KindInvalidParams, "format=%s: it must be one of %s", text.Line(name, 40), formNames())
	}
	selector, asked, err := tableSelector(r, `{"type":"table"}`)
	if err != nil {
		return err
	}
	if asked && name == formBytes {
		return mcp.Errorf(mcp.KindInvalidParams, "format=%s is of all that is kept: it takes no columns, conditions or order", formBytes)
	}
	kept, err := s.kept.Open(r.Context(), identity.From(r.Context()).Principal, r.PathValue("handle"))
	if err != nil {
		return failed(w, mcp.KindNotFound, err)
	}
	defer kept.Close()
	h := w.Header()
	if name == formBytes {
		mediaType, data := kept.Content()
		if _, _, err := mime.ParseMediaType(mediaType); err != nil {
			mediaType = "application/octet-stream"
		}
		sendFile(w, r, mediaType, func(out io.Writer) error { _, err := out.Write(data); return err })
		return nil
	}
	rows, err := kept.Rows(r.Context(), selector)
	if err != nil {
		return failed(w, mcp.KindInvalidParams, err)
	}
	h.Set("Weir-Rows", strconv.Itoa(rows.Len()))
	write := forms[at].write
	if name == formParquet {
		write = func(rows table.View, out io.Writer) (int64, error) { return rows.WriteParquet(out, kept.Grow) }
	}
	sendFile(w, r, forms[at].mediaType, func(out io.Writer) error { _, err := write(rows, out); return err })
	return nil
}

// failed returns the error for a result that cannot be read: of KindOverloaded, if it is, and else of the
// kind.
func failed(w http.ResponseWriter, kind mcp.Kind, err error) error {
	if of, _ := mcp.KindOf(err); of == mcp.KindOverloaded {
		w.Header().Set("Retry-After", "1")
		kind = of
	}
	return mcp.Errorf(kind, "%s", clip(err.Error(), maxError))
}

// sendFile answers with the output of write as a file. A browser saves it and never shows it as a page.
func sendFile(w http.ResponseWriter, r *http.Request, mediaType string, write func(io.Writer) error) {
	h := w.Header()
	h.Set("Content-Type", mediaType)
	h.Set("Content-Disposition", "attachment")
	h.Set("Content-Security-Policy", "sandbox; default-src 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	if r.Method == http.MethodHead {
		return
	}
	out := &slowWriter{w: w, control: http.NewResponseController(w)}
	lasting, end := guard.Lasting(r.Context())
	defer end()
	out.ended = lasting.Err
	if write(out) != nil {
		panic(http.ErrAbortHandler)
	}
}

// slowWriter writes to a client that may be slow, as long as each part is taken in time.
type slowWriter struct {
	w       io.Writer
	control *http.ResponseController
	ended   func() error // why the request has no more rights, such as a token that was removed
}

// maxPart bounds the bytes that are written with one deadline.
const maxPart = 256 << 10

// Write implements io.Writer.
func (s *slowWriter) Write(p []byte) (n int, err error) {
	for len(p) > 0 && err == nil {
		if err = s.ended(); err != nil {
			return n, err
		}
		_ = s.control.SetWriteDeadline(time.Now().Add(writeTime)) // not every writer supports deadlines
		k := 0
		k, err = s.w.Write(p[:min(len(p), maxPart)])
		n, p = n+k, p[k:]
	}
	return n, err
}
