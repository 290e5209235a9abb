package cli

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weir-mcp/weir/internal/audit"
)

func auditExportCommand(a *process) *cobra.Command {
	var configPath string
	var since time.Duration
	var asCSV, asJSONL, asOCSF bool
	cmd := &cobra.Command{
		Use:   "export [DIR|FILE]",
		Short: "Write the records of the audit log for another program",
		Long: `Write the records of the audit log for another program, the oldest first: --jsonl as they
are in the files (the default), --csv as a table for a spreadsheet, --ocsf as events of the
Open Cybersecurity Schema Framework. A text that a spreadsheet would read as a formula has
a ' before it. The log itself is checked by weir audit verify.`,
		Example: "  weir audit export --since 720h --csv > calls.csv\n  weir audit export /mnt/copy --jsonl",
		Args:    positional(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if since < 0 {
				return failf(exitUsage, "--since %s: it must not be negative", since)
			}
			path, err := auditPath(a, cmd, args, configPath)
			if err != nil {
				return err
			}
			write := recordLines(a.stdout)
			switch {
			case asCSV:
				write = recordTable(a.stdout)
			case asOCSF:
				lines := recordLines(a.stdout)
				write = func(raw []byte) error {
					if raw != nil {
						raw = audit.OCSF(raw, a.version)
					}
					return lines(raw)
				}
			}
			return export(path, since, write)
		},
	}
	cmd.Flags().StringVar(&configPath, "config", "", "configuration (default: the one of this folder, else yours)")
	cmd.Flags().DurationVar(&since, "since", 0, "only records of the last time, such as 24h")
	cmd.Flags().BoolVar(&asCSV, "csv", false, "print a table of comma-separated values")
	cmd.Flags().BoolVar(&asJSONL, "jsonl", false, "print the records as they are in the files")
	cmd.Flags().BoolVar(&asOCSF, "ocsf", false, "print the records as events of OCSF")
	cmd.MarkFlagsMutuallyExclusive("csv", "jsonl", "ocsf")
	return cmd
}

// export calls write for the records of a log of the last time, 0 for all, and at the end for nil.
func export(path string, since time.Duration, write func(raw []byte) error) error {
	after := time.Time{}
	if since > 0 {
		after = time.Now().Add(-since)
	}
	var failed error
	err := audit.Each(path, func(raw []byte) bool {
		var r struct {
			Time time.Time `json:"time"`
		}
		if json.Unmarshal(raw, &r) != nil || r.Time.Before(after) {
			return true
		}
		failed = write(bytes.TrimSpace(raw))
		return failed == nil
	})
	if err == nil && failed == nil {
		failed = write(nil)
	}
	if failed != nil {
		return failed
	}
	return err
}

// recordLines returns what writes records as lines.
func recordLines(out io.Writer) func(raw []byte) error {
	return func(raw []byte) error {
		if raw == nil {
			return nil
		}
		_, err := out.Write(append(raw[:len(raw):len(raw)], '\n'))
		return err
	}
}

// recordTable returns what writes records as rows of CSV, with their names in the first one.
func recordTable(out io.Writer) func(raw []byte) error {
	w := csv.NewWriter(out)
	_ = w.Write([]string{"seq", "time", "kind", "principal", "issuer", "client", "ip", "call", "run", "method", "server", "tool_id", "decision", "rule", "outcome", "ms", "labels", "handle", "detail"})
	return func(raw []byte) error {
		var r struct {
			auditRecord
			Seq    uint64   `json:"seq"`
			Issuer string   `json:"issuer"`
			Client string   `json:"client"`
			Run    string   `json:"run"`
			Rule   string   `json:"rule"`
			Labels []string `json:"labels"`
		}
		if raw == nil || json.Unmarshal(raw, &r) != nil {
			w.Flush()
			return w.Error()
		}
		took := ""
		if r.MS > 0 {
			took = strconv.FormatFloat(r.MS, 'f', -1, 64)
		}
		row := []string{
			strconv.FormatUint(r.Seq, 10), r.Time.UTC().Format(time.RFC3339Nano), r.Kind, r.Principal, r.Issuer, r.Client, r.IP, r.Call, r.Run, r.Method, r.Server,
			r.ToolID, r.Decision, r.Rule, r.Outcome, took, strings.Join(r.Labels, " "), r.Handle, r.Detail,
		}
		for i, text := range row {
			if strings.HasPrefix(text, "=") || strings.HasPrefix(text, "+") || strings.HasPrefix(text, "-") || strings.HasPrefix(text, "@") || strings.HasPrefix(text, "\t") || strings.HasPrefix(text, "\r") {
				row[i] = "'" + text
			}
		}
		return w.Write(row)
	}
}
