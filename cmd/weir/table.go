package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weir-mcp/weir/rawjson"
	"github.com/weir-mcp/weir/s2sp/plane"
	"github.com/weir-mcp/weir/table"
)

// The formats of weir table.
const (
	formatCSV    = "csv"
	formatJSON   = "json"
	formatNDJSON = "ndjson"
	formatArrow  = "arrow"
)

// tableRequest is what weir table asks for.
type tableRequest struct {
	what    string // token, handle or URL
	format  string
	out     string // file; empty is standard output
	columns string
	rows    string
}

func (a *app) tableCommand() *cobra.Command {
	var (
		t target
		r tableRequest
	)
	cmd := &cobra.Command{
		Use:   "table TOKEN|HANDLE|URL",
		Short: "Save a table to a file",
		Long: `Save the rows that a resource_url stands for, or a result that weir call kept.

  URL      a resource_url, of any server that speaks S2SP; it works once
  TOKEN    the last part of one of the gateway's
  HANDLE   of a result that is a table; it works as often as you like

CSV and JSON are made here, Arrow and NDJSON by the server. The column _row_id is
the number of the row, by which --rows chooses and other tools are told of it.`,
		Example: `  weir table art_… --format csv -o alerts.csv
  weir table http://127.0.0.1:8088/s2sp/data/… -o alerts.arrow
  weir table art_… --columns event,wind_kmh --rows 0,3,7`,
		Args:              positional(cobra.ExactArgs(1)),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			r.what = args[0]
			if r.format == "" {
				r.format = formatOfFile(r.out)
			}
			switch r.format {
			case formatCSV, formatJSON, formatNDJSON, formatArrow:
			default:
				return failf(exitUsage, "--format %q: it must be csv, json, ndjson or arrow", r.format)
			}
			if r.format == formatArrow && r.out == "" && a.stdout.screen() {
				return failf(exitUsage, "Arrow is binary and this is a screen: name a file with -o")
			}
			return a.table(cmd.Context(), t, r)
		},
	}
	t.runningFlags(cmd)
	cmd.Flags().StringVar(&r.format, "format", "", "csv, json, ndjson or arrow; default: what the file's name says, else csv")
	oneOf(cmd, "format", formatCSV, formatJSON, formatNDJSON, formatArrow)
	cmd.Flags().StringVarP(&r.out, "output", "o", "", "file to write; default: standard output")
	cmd.Flags().StringVar(&r.columns, "columns", "", "only these columns, with commas between them")
	cmd.Flags().StringVar(&r.rows, "rows", "", "only the rows with these _row_ids, with commas between them")
	return cmd
}

// formatOfFile is the format that a file's name stands for.
func formatOfFile(name string) string {
	switch strings.ToLower(filepath.Ext(name)) {
	case ".json":
		return formatJSON
	case ".ndjson", ".jsonl":
		return formatNDJSON
	case ".arrow", ".arrows":
		return formatArrow
	}
	return formatCSV
}

// body is the request for the rows and columns that are wanted.
func (r *tableRequest) body() ([]byte, error) {
	var b struct {
		RowIDs  []int    `json:"row_ids,omitempty"`
		Columns []string `json:"columns,omitempty"`
	}
	b.Columns = plane.ParseDomains(r.columns)
	for _, word := range plane.ParseDomains(r.rows) {
		id, err := strconv.Atoi(word)
		if err != nil || id < 0 {
			return nil, failf(exitUsage, "--rows %q: %q is no _row_id", r.rows, word)
		}
		b.RowIDs = append(b.RowIDs, id)
	}
	return json.Marshal(b)
}

// table fetches and writes.
func (a *app) table(ctx context.Context, t target, r tableRequest) error {
	body, err := r.body()
	if err != nil {
		return err
	}
	from, err := a.resourceURL(ctx, t, r.what)
	if err != nil {
		return err
	}
	out, finish, err := a.create(r.out)
	if err != nil {
		return err
	}
	rows, err := a.fetchTable(ctx, from, body, plane.ParseDomains(r.columns), r.format, out)
	if err = finish(err); err != nil {
		return err
	}
	if r.out != "" {
		count := "rows"
		if rows >= 0 {
			count = counted(rows, "row")
		}
		a.note("%s written to %s", count, r.out)
	}
	return nil
}

// resourceURL is what to fetch from.
func (a *app) resourceURL(ctx context.Context, t target, what string) (string, error) {
	if strings.Contains(what, "://") {
		u, err := url.Parse(what)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			return "", failf(exitUsage, "%q is no http or https URL; a ddi:// handle is for the next call of a tool only", what)
		}
		return what, nil
	}
	at, token, err := a.runningURL(ctx, t)
	if err != nil {
		return "", err
	}
	if at == "" {
		at = defaultURL
	}
	if !strings.HasPrefix(what, "art_") {
		u, err := beside(at, strings.TrimPrefix(plane.Path, "/")+url.PathEscape(what))
		return u, err
	}
	u, err := beside(at, strings.TrimPrefix(offerPath, "/")+url.PathEscape(what))
	if err != nil {
		return "", err
	}
	data, err := a.post(ctx, u, token, nil, "", func(resp *http.Response) ([]byte, error) {
		return io.ReadAll(io.LimitReader(resp.Body, maxHealth))
	})
	if err != nil {
		return "", err
	}
	offered := rawjson.Text(rawjson.Get(data, "resource_url"))
	if offered == "" {
		return "", failf(exitUnavailable, "%s answered something else than a weir gateway does", withoutPassword(at))
	}
	// The gateway says where others reach it; this command has reached it here.
	return beside(at, strings.TrimPrefix(plane.Path, "/")+offered[strings.LastIndexByte(offered, '/')+1:])
}

// beside is a URL of the gateway beside its MCP URL.
func beside(mcpURL, name string) (string, error) {
	u, err := url.Parse(mcpURL)
	if err != nil || u.Host == "" {
		return "", failf(exitUsage, "--url %q is no http or https URL; it looks like %s", mcpURL, defaultURL)
	}
	u.RawQuery, u.Fragment = "", ""
	u.Path = strings.TrimSuffix(strings.TrimSuffix(u.Path, "/"), "/mcp") + "/" + name
	return u.String(), nil
}

// post asks and hands the answer to read where it is one.
func (a *app) post(ctx context.Context, to, token string, body []byte, accept string, read func(*http.Response) ([]byte, error)) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(body))
	if err != nil {
		return nil, failf(exitUsage, "%q is no URL", to)
	}
	req.Close = true
	req.Header.Set("Content-Type", plane.TypeJSON)
	if accept != "" {
		req.Header.Set("Accept", accept)
	}
	req.Header.Set("Prefer", "handling=strict") // what does not exist is a mistake, and told by a weir
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(req)
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, failf(exitUnavailable, "cannot reach %s: %w", req.URL.Host, urlCause(err))
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusOK {
		return read(resp)
	}
	said, _ := io.ReadAll(io.LimitReader(resp.Body, 4096)) // what it says is only told
	why := rawjson.Text(rawjson.Get(said, "error"))
	switch {
	case resp.StatusCode == http.StatusUnauthorized:
		return nil, errToken(req.URL.Scheme+"://"+req.URL.Host, token) // the rest may hold secrets
	case resp.StatusCode == http.StatusNotFound && strings.Contains(req.URL.Path, plane.Path):
		return nil, failf(exitRefused, "unknown or expired resource: a resource_url works once, and not for long; call the tool again for a new one")
	case why != "" && resp.StatusCode == http.StatusBadRequest:
		return nil, failf(exitUsage, "%s", why)
	case why != "":
		return nil, failf(exitRefused, "%s", why)
	}
	return nil, failf(exitUnavailable, "%s answered %s", req.URL.Host, resp.Status)
}

// fetchTable writes the rows behind a resource_url and returns how many there
// are, -1 where nobody has counted.
func (a *app) fetchTable(ctx context.Context, from string, body []byte, columns []string, format string, out io.Writer) (int, error) {
	accept := map[string]string{formatNDJSON: plane.TypeNDJSON, formatArrow: plane.TypeArrow}[format]
	if accept == "" {
		accept = plane.TypeJSON
	}
	rows := -1
	_, err := a.post(ctx, from, "", body, accept, func(resp *http.Response) ([]byte, error) {
		bar := a.newBar(resp.ContentLength)
		defer bar.end()
		in := io.TeeReader(resp.Body, bar)
		if got, _, _ := strings.Cut(resp.Header.Get("Content-Type"), ";"); accept != plane.TypeJSON && got == accept {
			return nil, copied(io.Copy(out, in))
		}
		data, err := io.ReadAll(in)
		if err != nil {
			return nil, failf(exitUnavailable, "the rows broke off: %w", err)
		}
		bar.end()
		list := rawjson.Get(data, "body")
		t, err := table.Index(list, table.Options{KeepRowID: true})
		if err != nil {
			return nil, failf(exitUnavailable, "the answer is no table: %w", err)
		}
		rows = t.Len()
		for _, name := range columns {
			if rows > 0 && !t.Has(name) && name != table.RowID { // a server that left it out
				a.note("the rows have no column %q", name)
			}
		}
		switch format {
		case formatCSV:
			if rows == 0 { // the answer knows the columns all the same
				return nil, writeHeader(out, rawjson.Get(data, "columns_returned"))
			}
			return nil, copied(t.View().WriteCSV(out))
		case formatNDJSON: // of a server that knows JSON only
			return nil, copied(t.View().WriteNDJSON(out))
		case formatArrow:
			return nil, copied(t.View().WriteArrow(out))
		}
		n, err := t.View().WriteJSON(out)
		if err == nil {
			_, err = io.WriteString(out, "\n")
		}
		return nil, copied(n, err)
	})
	return rows, err
}

// writeHeader writes the line of names of a table without rows.
func writeHeader(out io.Writer, columns json.RawMessage) error {
	names := []string{table.RowID} // all that is known of a server that says nothing of columns
	if len(columns) > 0 {
		if err := json.Unmarshal(columns, &names); err != nil {
			return failf(exitUnavailable, "the answer is no table: columns_returned: %w", err)
		}
	}
	w := csv.NewWriter(out)
	err := w.Write(names)
	w.Flush()
	return copied(0, errors.Join(err, w.Error()))
}

func copied(_ int64, err error) error {
	if err != nil {
		return fmt.Errorf("writing the rows: %w", pathCause(err))
	}
	return nil
}

// create opens what the rows are written to. finish takes the error of writing
// and returns that of all: a file is there whole, or as it was before. A file that
// is there already keeps its permissions, a new one gets those of the umask, a link
// leads on to its file, and what is no file (/dev/stdout, a pipe) is written to, not
// replaced.
func (a *app) create(name string) (out io.Writer, finish func(error) error, err error) {
	if name == "" {
		return a.stdout.Writer, func(err error) error { return err }, nil
	}
	path, mode, keep := name, fs.FileMode(0o666), func(*os.File) error { return nil }
	if info, err := os.Stat(name); err == nil {
		switch {
		case info.IsDir():
			return nil, nil, failf(exitUsage, "cannot write %s: it is a folder; name a file in it", name)
		case !info.Mode().IsRegular():
			return openDevice(name)
		}
		mode = info.Mode().Perm()
		keep = func(f *os.File) error { return f.Chmod(mode) }
		if path, err = filepath.EvalSymlinks(name); err != nil {
			return nil, nil, failf(exitUsage, "cannot write %s: %w", name, pathCause(err))
		}
	}
	f, err := os.OpenFile(filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+"."+rand.Text()[:8]), os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return nil, nil, failf(exitUsage, "cannot write %s: the folder %s: %w", name, filepath.Dir(path), pathCause(err))
	}
	return f, func(err error) error {
		err = cmp.Or(err, keep(f), f.Close())
		if err == nil {
			err = os.Rename(f.Name(), path)
		}
		if err != nil {
			_ = os.Remove(f.Name()) // the first error is the one to report
		}
		return err
	}, nil
}

// openDevice opens what is there and is no file.
func openDevice(name string) (out io.Writer, finish func(error) error, err error) {
	f, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		return nil, nil, failf(exitUsage, "cannot write %s: %w", name, pathCause(err))
	}
	return f, func(err error) error { return cmp.Or(err, f.Close()) }, nil
}

// pathCause is the reason in an error about a file, without the operation and the
// path: a message names the file as its reader has given it.
func pathCause(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}

// A bar shows how much of a table has come, where a person looks.
type bar struct {
	a     *app
	total int64 // -1: nobody knows
	have  int64
	began time.Time
	shown time.Time
	drawn bool
}

func (a *app) newBar(total int64) *bar {
	now := time.Now()
	return &bar{a: a, total: total, began: now, shown: now}
}

// barEvery is how often a bar is drawn.
const barEvery = 100 * time.Millisecond

// Write counts what has come.
func (b *bar) Write(p []byte) (int, error) {
	b.have += int64(len(p))
	if now := time.Now(); b.a.stderr.screen() && now.Sub(b.shown) >= barEvery {
		b.shown, b.drawn = now, true
		fmt.Fprintf(b.a.stderr, "\r%s\x1b[K", cut(b.text(b.a.stderr.width, now.Sub(b.began)), b.a.stderr.width-1))
	}
	return len(p), nil
}

// text is the bar for a screen of a width.
func (b *bar) text(width int, after time.Duration) string {
	speed := fmt.Sprintf("%s/s", sizeText(int(float64(b.have)/max(after.Seconds(), 0.001))))
	if b.total <= 0 {
		return fmt.Sprintf("%s  %s", sizeText(int(b.have)), speed)
	}
	tail := fmt.Sprintf(" %3d%%  %s of %s  %s", b.have*100/b.total, sizeText(int(b.have)), sizeText(int(b.total)), speed)
	room := min(max(width-len(tail)-3, 10), 40)
	full := int(int64(room) * min(b.have, b.total) / b.total)
	return strings.Repeat("█", full) + strings.Repeat("░", room-full) + tail
}

// end leaves a clean line.
func (b *bar) end() {
	if b.drawn {
		fmt.Fprint(b.a.stderr, "\r\x1b[K")
		b.drawn = false
	}
}
