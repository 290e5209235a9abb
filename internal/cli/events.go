package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/spf13/cobra"
)

// eventsCommand shows the events of all gateways that share a store.
func eventsCommand(a *process) *cobra.Command {
	var t target
	var follow, asJSON bool
	var since string
	cmd := &cobra.Command{
		Use:   "events",
		Short: "Show what happened at the gateways of a cluster",
		Long: `Show the events of all gateways that share a store, the oldest first: calls and
changes of the catalog, each with its node. The gateways need events: {stream: true},
and keep a day. Any of them answers. Events have no arguments, queries or results.

A line has the time, the node, the event, the tool or the server, the principal, the
duration and the code of an error. --json prints a JSON object for each event.`,
		Example: "  weir events --since 10m\n  weir events -f --json",
		Args:    positional(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			from, err := eventsSince(since, time.Now())
			if err != nil {
				return err
			}
			o, err := findOperator(a, cmd.Context(), t)
			if err != nil {
				return err
			}
			query := url.Values{"since": {from.UTC().Format(time.RFC3339)}}
			if follow {
				query.Set("follow", "1")
			}
			return printEvents(cmd.Context(), a, o, query, asJSON)
		},
	}
	t.operatorFlags(cmd)
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on with what happens from now on")
	cmd.Flags().StringVar(&since, "since", "1h", "show events from this time on: a duration such as 10m, or a time such as 2026-07-28T10:00:00Z")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON object for each event")
	return cmd
}

// eventsSince returns the time that --since names.
func eventsSince(text string, now time.Time) (time.Time, error) {
	if d, err := time.ParseDuration(text); err == nil && d > 0 {
		return now.Add(-d), nil
	}
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return at, nil
	}
	return time.Time{}, failf(exitUsage, "--since %q: it must be a duration such as 10m, or a time such as 2026-07-28T10:00:00Z", text)
}

// printEvents prints the events of a query until the gateway ends them.
func printEvents(ctx context.Context, a *process, o *operator, query url.Values, asJSON bool) error {
	resp, err := o.open(ctx, http.MethodGet, "events?"+query.Encode(), nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	lines, none := bufio.NewScanner(resp.Body), true
	lines.Buffer(nil, maxLogLine)
	for lines.Scan() {
		none = false
		if asJSON {
			_, err = fmt.Fprintf(a.stdout, "%s\n", lines.Bytes())
		} else {
			err = printEvent(a.stdout, lines.Bytes())
		}
		if err != nil {
			return err
		}
	}
	switch err := lines.Err(); {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, bufio.ErrTooLong):
		return failf(exitUnavailable, "the gateway sent a line of more than %d bytes", maxLogLine)
	case err != nil:
		return failf(exitUnavailable, "the gateway ended the events early: %w", err)
	case query.Has("follow"):
		return failf(exitUnavailable, "the gateway has ended the events: it stops, or has a new configuration; run the command again")
	case none && !asJSON:
		a.note("No events are kept of this time.")
	}
	return nil
}

// printEvent prints an event as a line for people.
func printEvent(stdout terminal, line []byte) error {
	var e struct {
		Time      time.Time `json:"time"`
		Name      string    `json:"event"`
		Node      string    `json:"node"`
		Principal string    `json:"principal"`
		Method    string    `json:"method"`
		Tool      string    `json:"tool_id"`
		Upstream  string    `json:"upstream"`
		Duration  float64   `json:"duration_ms"`
		Code      string    `json:"code"`
		IsError   bool      `json:"is_error"`
		Detail    string    `json:"detail"`
	}
	if json.Unmarshal(line, &e) != nil {
		return failf(exitUnavailable, "the gateway sent a line that is no JSON")
	}
	out := stdout
	text := out.paint(dim, e.Time.Local().Format(time.DateTime))
	what := e.Tool
	if what == "" {
		what = e.Upstream
	}
	for _, part := range []string{e.Node, e.Name, e.Method, what, e.Principal} {
		if part != "" {
			text += "  " + oneLine(out.clean(part))
		}
	}
	if e.Duration > 0 {
		text += fmt.Sprintf("  %.1fms", e.Duration)
	}
	switch {
	case e.Code != "":
		text += "  " + out.paint(red, oneLine(out.clean(e.Code)))
	case e.IsError:
		text += "  " + out.paint(yellow, "the tool failed")
	}
	if e.Detail != "" {
		text += "  " + oneLine(out.clean(e.Detail))
	}
	_, err := fmt.Fprintln(out, text)
	return err
}
