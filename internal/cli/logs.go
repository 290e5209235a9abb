package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/weir-mcp/weir/internal/host/serverlog"
	"github.com/weir-mcp/weir/internal/web/api"
)

const (
	// shownLogLines is the number of lines that weir logs shows without -n.
	shownLogLines = 100
	// maxLogLine bounds a line of JSON with a line of a log.
	maxLogLine = 1 << 20
	// logsAgain is the time between two attempts to continue a log whose gateway has gone.
	logsAgain = 500 * time.Millisecond
	// logsPatience is how long weir logs -f waits for a gateway that restarts.
	logsPatience = 10 * time.Second
)

func logsCommand(a *process) *cobra.Command {
	var t target
	var follow, asJSON bool
	var n int
	cmd := &cobra.Command{
		Use:   "logs [NAME]",
		Short: "Show what servers write to standard error",
		Long: `Show what the programs of servers write to standard error: of one server, or
of all, ordered by time. The running gateway keeps the last 256 KB of each server,
without the secrets that it knows. Lines with ── are weir's: a program starts, or has
ended, and why.

--json prints a JSON object for each line.`,
		Example:           "  weir logs files -f\n  weir logs -n 20",
		Args:              positional(cobra.MaximumNArgs(1)),
		ValidArgsFunction: a.completeRunning(&t, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if n < 0 {
				return failf(exitUsage, "-n %d: it must not be negative", n)
			}
			o, err := findOperator(a, cmd.Context(), t)
			if err != nil {
				return err
			}
			l := &logReader{a: a, o: o, again: func(ctx context.Context) (*operator, error) { return findOperator(a, ctx, t) }, asJSON: asJSON, path: "logs"}
			if len(args) == 1 {
				l.name, l.path = args[0], serverPath(args[0], "log")
			}
			if !follow {
				return l.read(cmd.Context(), n)
			}
			return l.follow(cmd.Context(), n)
		},
	}
	t.operatorFlags(cmd)
	t.nodeFlag(a, cmd)
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on with what is written from now on")
	cmd.Flags().IntVarP(&n, "lines", "n", shownLogLines, "how many of the last lines to show")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON object for each line")
	return cmd
}

// A logReader prints lines of servers.
type logReader struct {
	a      *process
	o      *operator
	again  func(context.Context) (*operator, error) // finds the gateway again
	name   string                                   // of the only server; "" shows all
	path   string
	asJSON bool

	seen    uint64            // number of the last line
	colours map[string]string // by server
	width   int               // of the longest name so far
}

// read prints the last n lines.
func (l *logReader) read(ctx context.Context, n int) error {
	var found api.Lines
	if err := l.o.get(ctx, l.path+"?lines="+strconv.Itoa(n), &found); err != nil {
		return err
	}
	for _, line := range found.Lines {
		l.width = max(l.width, min(utf8.RuneCountInString(line.Server), rosterName))
	}
	for _, line := range found.Lines {
		if err := l.print(line); err != nil {
			return err
		}
	}
	if len(found.Lines) == 0 && !l.asJSON {
		l.a.note("The programs of these servers have written nothing to standard error. Servers at a URL keep their logs themselves.")
	}
	return nil
}

// follow prints the last n lines, and later ones until ctx ends. If the stream ends because the
// gateway has reloaded its configuration or was restarted, follow continues with the new one.
func (l *logReader) follow(ctx context.Context, n int) error {
	instance := ""
	var gone time.Time // since when the gateway does not answer
	for {
		query := url.Values{"follow": {"1"}, "lines": {strconv.Itoa(n)}, "after": {strconv.FormatUint(l.seen, 10)}}
		resp, err := l.o.open(ctx, http.MethodGet, l.path+"?"+query.Encode(), nil)
		switch {
		case err == nil && instance != "" && l.o.instance != instance:
			_ = resp.Body.Close()
			instance, l.seen = l.o.instance, 0 // another gateway counts from 0
			continue
		case err == nil:
			instance, gone, n = l.o.instance, time.Time{}, maxFollowed
			err = l.copy(resp)
			_ = resp.Body.Close()
			if err != nil {
				return err
			}
		case instance == "" || exitCode(err) != exitUnavailable:
			return err
		}
		if gone.IsZero() {
			gone = time.Now()
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(logsAgain):
		}
		switch next, err := l.again(ctx); {
		case err == nil:
			l.o = next
		case time.Since(gone) > logsPatience:
			return failf(exitUnavailable, "the gateway has ended: %w", err)
		}
	}
}

// maxFollowed is the number of lines that a continued stream asks for: all that it missed.
const maxFollowed = 100_000

// copy prints the lines of a stream until it ends. It returns the error of printing.
func (l *logReader) copy(resp *http.Response) error {
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, maxLogLine)
	for lines.Scan() {
		var line serverlog.Line
		if json.Unmarshal(lines.Bytes(), &line) != nil {
			return failf(exitUnavailable, "the gateway sent a line that is no JSON")
		}
		if err := l.print(line); err != nil {
			return err
		}
	}
	if errors.Is(lines.Err(), bufio.ErrTooLong) {
		return failf(exitUnavailable, "the gateway sent a line of more than %d bytes", maxLogLine)
	}
	return nil // the stream has ended
}

// serverColours are the styles of names, in turn.
var serverColours = []string{cyan, green, yellow, "35", "34", "36;1", "32;1"}

// print prints one line.
func (l *logReader) print(line serverlog.Line) error {
	l.seen = max(l.seen, line.Seq)
	out := l.a.stdout
	if l.asJSON {
		raw, err := json.Marshal(line)
		if err == nil {
			_, err = fmt.Fprintf(out, "%s\n", raw)
		}
		return err
	}
	text := out.clean(line.Text)
	if line.Mark {
		text = out.paint(dim, "── "+text)
	}
	prefix := ""
	if l.name == "" {
		name := middle(oneLine(out.clean(line.Server)), rosterName)
		l.width = max(l.width, utf8.RuneCountInString(name))
		prefix = out.paint(l.colour(line.Server), padded(name, l.width)) + "  "
	}
	_, err := fmt.Fprintf(out, "%s %s%s\n", out.paint(dim, line.Time.Local().Format(time.TimeOnly)), prefix, text)
	return err
}

// colour returns the style of a server's name.
func (l *logReader) colour(server string) string {
	if l.colours == nil {
		l.colours = map[string]string{}
	}
	if _, ok := l.colours[server]; !ok {
		l.colours[server] = serverColours[len(l.colours)%len(serverColours)]
	}
	return l.colours[server]
}
