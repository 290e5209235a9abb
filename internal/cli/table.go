package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weir-mcp/weir/internal/columnar"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/web"
	"github.com/weir-mcp/weir/s2sp/plane"
	"github.com/weir-mcp/weir/s2sp/table"
)

// tableRequest is a request of weir table.
type tableRequest struct {
	what    string // token, handle or URL
	format  string
	out     string // file; empty means standard output
	force   bool   // overwrite an existing file
	columns string
	rows    string
}

func tableCommand(a *process) *cobra.Command {
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

The format is what the file's name says (.csv, .tsv, .json, .ndjson, .arrow,
.parquet), or --format. Arrow and NDJSON are made by the server, the others here. In CSV
an empty field is null and "" an empty text. The column _row_id is the number of
the row, by which --rows chooses and other tools are told of it.

A file that is there stays as it is unless --force is given, and keeps its
permissions then. What is written is there whole or not at all. A symbolic link
is not followed.`,
		Example: `  weir table art_… --format csv -o alerts.csv
  weir table http://127.0.0.1:8088/s2sp/data/… -o alerts.arrow
  weir table art_… --columns event,wind_kmh --rows 0,3,7`,
		Args:              positional(cobra.ExactArgs(1)),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			r.what = args[0]
			if r.format == "" {
				var err error
				if r.format, err = formatOfFile(r.out); err != nil {
					return err
				}
			}
			if !slices.Contains(formats, r.format) {
				return failf(exitUsage, "--format %q: it must be one of %s", r.format, strings.Join(formats, ", "))
			}
			if (r.format == formatArrow || r.format == formatParquet) && r.out == "" && a.stdout.screen() {
				return failf(exitUsage, "%s is binary and this is a screen: name a file with -o", map[string]string{formatArrow: "Arrow", formatParquet: "Parquet"}[r.format])
			}
			return runTable(a, cmd.Context(), t, r)
		},
	}
	t.runningFlags(cmd)
	cmd.Flags().StringVar(&r.format, "format", "", strings.Join(formats, ", ")+"; default: what the file's name says, else csv")
	oneOf(cmd, "format", formats...)
	cmd.Flags().StringVarP(&r.out, "output", "o", "", "file to write; default: standard output")
	cmd.Flags().BoolVar(&r.force, "force", false, "write over a file that is there")
	cmd.Flags().StringVar(&r.columns, "columns", "", "only these columns, with commas between them")
	cmd.Flags().StringVar(&r.rows, "rows", "", "only the rows with these _row_ids, with commas between them")
	return cmd
}

// body returns the request body with the wanted rows and columns.
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

// runTable fetches and writes a table.
func runTable(a *process, ctx context.Context, t target, r tableRequest) error {
	body, err := r.body()
	if err != nil {
		return err
	}
	from, err := resourceURL(a, ctx, t, r.what)
	if err != nil {
		return err
	}
	out, finish, err := createFile(a.stdout, r.out, r.force)
	if err != nil {
		return err
	}
	rows, err := fetchTable(a, ctx, from, body, plane.ParseDomains(r.columns), r.format, out)
	if err = finish(err); err != nil {
		return err
	}
	if r.out != "" {
		a.note("%s written to %s", counted(rows, "row"), r.out)
	}
	return nil
}

// resourceURL returns the URL to fetch from.
func resourceURL(a *process, ctx context.Context, t target, what string) (string, error) {
	if strings.Contains(what, "://") {
		u, err := url.Parse(what)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			return "", failf(exitUsage, "%q is no http or https URL; a ddi:// handle is for the next call of a tool only", what)
		}
		return what, nil
	}
	at, token, err := runningURL(a, ctx, t)
	if err != nil {
		return "", err
	}
	if at == "" {
		at = defaultURL
	}
	if !strings.HasPrefix(what, "art_") {
		u, err := siblingURL(at, strings.TrimPrefix(plane.Path, "/")+url.PathEscape(what))
		return u, err
	}
	u, err := siblingURL(at, strings.TrimPrefix(web.OfferPath, "/")+url.PathEscape(what))
	if err != nil {
		return "", err
	}
	data, err := postJSON(ctx, u, token, nil, "", func(resp *http.Response) ([]byte, error) {
		return io.ReadAll(io.LimitReader(resp.Body, maxHealth))
	})
	if err != nil {
		return "", err
	}
	offered := rawjson.Text(rawjson.Get(data, "resource_url"))
	if offered == "" {
		return "", failf(exitUnavailable, "%s answered something else than a weir gateway does", withoutPassword(at))
	}
	// The offered URL is the one for other servers. This command uses the address at which it
	// reached the gateway.
	return siblingURL(at, strings.TrimPrefix(plane.Path, "/")+offered[strings.LastIndexByte(offered, '/')+1:])
}

// siblingURL returns a sibling of the gateway's MCP URL.
func siblingURL(mcpURL, name string) (string, error) {
	u, err := url.Parse(mcpURL)
	if err != nil || u.Host == "" {
		return "", failf(exitUsage, "--url %q is no http or https URL; it looks like %s", mcpURL, defaultURL)
	}
	u.RawQuery, u.Fragment = "", ""
	u.Path = strings.TrimSuffix(strings.TrimSuffix(u.Path, "/"), "/mcp") + "/" + name
	return u.String(), nil
}

// postJSON sends a request and passes a successful response to read.
func postJSON(ctx context.Context, to, token string, body []byte, accept string, read func(*http.Response) ([]byte, error)) ([]byte, error) {
	header := http.Header{"Content-Type": {plane.TypeJSON}, "Prefer": {"handling=strict"}} // unknown columns are errors
	if accept != "" {
		header.Set("Accept", accept)
	}
	resp, err := request{method: http.MethodPost, url: to, token: token, body: body, header: header}.send(ctx)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	at := resp.Request.URL
	if resp.StatusCode == http.StatusOK {
		return read(resp)
	}
	said, _ := io.ReadAll(io.LimitReader(resp.Body, 4096)) // only shown to the user
	message := rawjson.Text(rawjson.Get(said, "error"))
	switch {
	case resp.StatusCode == http.StatusUnauthorized:
		return nil, errToken(at.Scheme+"://"+at.Host, token) // the rest may contain secrets
	case resp.StatusCode == http.StatusNotFound && strings.Contains(at.Path, plane.Path):
		return nil, failf(exitRefused, "unknown or expired resource: a resource_url works once, and not for long; call the tool again for a new one")
	case message != "" && resp.StatusCode == http.StatusBadRequest:
		return nil, failf(exitUsage, "%s", message)
	case message != "":
		return nil, failf(exitRefused, "%s", message)
	}
	return nil, failf(exitUnavailable, "%s answered %s", at.Host, resp.Status)
}

// fetchTable writes the rows of a resource_url and returns their number. Formats that are written
// row by row are also held row by row.
func fetchTable(a *process, ctx context.Context, from string, body []byte, columns []string, format string, out io.Writer) (rows int, err error) {
	accept := map[string]string{formatNDJSON: plane.TypeNDJSON, formatArrow: plane.TypeArrow + ", " + plane.TypeJSON + ";q=0.5"}[format] // not every server has Arrow
	if accept == "" {
		accept = plane.TypeJSON
	}
	_, err = postJSON(ctx, from, "", body, accept, func(resp *http.Response) ([]byte, error) {
		bar := newBar(a, resp.ContentLength)
		defer bar.end()
		in := io.TeeReader(resp.Body, bar)
		got, _, _ := strings.Cut(resp.Header.Get("Content-Type"), ";")
		switch {
		case got == plane.TypeNDJSON && format == formatNDJSON:
			lines := &lineCounter{w: out}
			err := copied(io.Copy(lines, in))
			rows = lines.lines
			return nil, err
		case got == plane.TypeArrow && format == formatArrow:
			rows, err = columnar.Registered().CountArrow(io.TeeReader(in, out))
			return nil, copied(0, err)
		}
		answer := plane.ReadAnswer(ctx, io.NopCloser(in), resp.Request.URL.Host, table.Selection{})
		defer func() { _ = answer.Close() }() // everything needed has been read
		if rows, err = writeTable(out, answer, format); err != nil {
			return nil, err
		}
		bar.end()
		noteAnswer(a, answer, columns, rows)
		return nil, nil
	})
	return rows, err
}

// noteAnswer prints notes about unusual rows.
func noteAnswer(a *process, answer *plane.Answer, columns []string, rows int) {
	there := answer.Columns()
	for _, name := range columns {
		if rows > 0 && !slices.Contains(there, name) { // the server left the column out
			a.note("the rows have no column %q", name)
		}
	}
	if n := answer.Nulled(); n > 0 {
		a.note("%s", rawjson.FiniteNote(n))
	}
	if n := answer.Skipped(); n > 0 {
		a.note("%s without %s left out", counted(n, "row"), table.RowID)
	}
}

// writeTable writes rows in a format and returns their number.
func writeTable(out io.Writer, answer *plane.Answer, format string) (rows int, err error) {
	if format == formatJSON || format == formatNDJSON { // the server supports JSON only
		return writeRows(out, answer, format == formatNDJSON)
	}
	t, err := answer.Table()
	if err != nil {
		return 0, failf(exitUnavailable, "the rows cannot be read: %w", err)
	}
	v := t.View()
	switch {
	case format == formatArrow:
		return t.Len(), copied(v.WriteArrow(out))
	case format == formatParquet:
		return t.Len(), copied(v.WriteParquet(out, nil))
	case t.Len() == 0: // the response may still name the columns
		return 0, writeHeader(out, answer.Columns(), format)
	case format == formatTSV:
		return t.Len(), copied(v.WriteTSV(out))
	}
	return t.Len(), copied(v.WriteCSV(out))
}

// writeRows writes rows as they arrive, as an array or one per line.
func writeRows(w io.Writer, answer *plane.Answer, lines bool) (rows int, err error) {
	out := bufio.NewWriterSize(w, 64<<10)
	between, end := ",", "]\n"
	if lines {
		between, end = "\n", "\n"
	} else {
		_ = out.WriteByte('[') // Flush reports errors
	}
	for {
		row, err := answer.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return rows, failf(exitUnavailable, "the rows cannot be read: %w", err)
		}
		if rows > 0 {
			_, _ = out.WriteString(between)
		}
		if lines {
			row = rawjson.StripNewlines(nil, row)
		}
		if _, err := out.Write(row); err != nil {
			return rows, copied(0, err)
		}
		rows++
	}
	if rows > 0 || !lines {
		_, _ = out.WriteString(end)
	}
	return rows, copied(0, out.Flush())
}

// lineCounter counts the lines written through it.
type lineCounter struct {
	w     io.Writer
	lines int
}

func (c *lineCounter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.lines += bytes.Count(p[:n], []byte{'\n'})
	return n, err
}

// writeHeader writes the header of a table without rows.
func writeHeader(out io.Writer, columns []string, format string) error {
	w := csv.NewWriter(out)
	if format == formatTSV {
		w.Comma = '\t'
	}
	err := w.Write(columns)
	w.Flush()
	return copied(0, errors.Join(err, w.Error()))
}

// A bar shows the progress of a table download on a terminal.
type bar struct {
	a     *process
	total int64 // -1 if unknown
	have  int64
	began time.Time
	shown time.Time
	drawn bool
}

func newBar(a *process, total int64) *bar {
	now := time.Now()
	return &bar{a: a, total: total, began: now, shown: now}
}

// barEvery is the interval between redraws.
const barEvery = 100 * time.Millisecond

// Write counts received bytes.
func (b *bar) Write(p []byte) (int, error) {
	b.have += int64(len(p))
	if now := time.Now(); b.a.stderr.screen() && now.Sub(b.shown) >= barEvery {
		b.shown, b.drawn = now, true
		fmt.Fprintf(b.a.stderr, "\r%s\x1b[K", cut(b.text(b.a.stderr.width, now.Sub(b.began)), b.a.stderr.width-1))
	}
	return len(p), nil
}

// text returns the bar for a screen width.
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

// end clears the line.
func (b *bar) end() {
	if b.drawn {
		fmt.Fprint(b.a.stderr, "\r\x1b[K")
		b.drawn = false
	}
}
