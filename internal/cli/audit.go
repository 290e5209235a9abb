package cli

import (
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weir-mcp/weir/internal/audit"
	"github.com/weir-mcp/weir/internal/config"
)

// auditCommand is for readers of the audit log. Its commands read files and ask no gateway.
func auditCommand(a *process) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "Verify and read the audit log",
		Long: `Verify and read the audit log. The commands read its files only, so they work on a
copy at another machine. Without a folder they read audit.dir of the configuration.`,
	}
	cmd.AddCommand(auditVerifyCommand(a), auditWhoCommand(a), auditTailCommand(a), auditExportCommand(a))
	return cmd
}

// auditPath returns the folder of the log that a command reads: the argument, or the configured one.
func auditPath(a *process, cmd *cobra.Command, args []string, configPath string) (string, error) {
	if len(args) > 0 {
		return args[0], nil
	}
	c, err := configForLogin(a, cmd.Context(), configPath)
	if errors.Is(err, config.ErrNotFound) {
		return "", failf(exitUsage, "there is no configuration here that names the log: name its folder")
	}
	if err != nil {
		return "", err
	}
	if c.Audit.Dir == "" {
		return "", failf(exitUsage, "%s has no audit.dir: name the folder of the log", c.Path())
	}
	return c.Audit.Dir, nil
}

func auditVerifyCommand(a *process) *cobra.Command {
	var configPath, key, noted string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "verify [DIR|FILE]",
		Short: "Check that an audit log is as it was written",
		Long: `Check that an audit log is as it was written: the chain of hashes, the signatures, and
that no record is missing. The exit code is 1 for a log that was changed, and the
message names the first record that is wrong.

--key is the public key of the log, the text or a file: audit.pub in its folder. Copy
it when the log is new, to a place that the gateway's machine cannot write. Without
--key the log's own key counts, so that a log that was written anew would pass.

--noted checks that a record is still there, with the hash that an earlier run printed.`,
		Example: "  weir audit verify\n  weir audit verify /mnt/copy --key audit.pub --noted 5120:9f86d081…",
		Args:    positional(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			path, err := auditPath(a, cmd, args, configPath)
			if err != nil {
				return err
			}
			o, err := verifyOptions(key, noted)
			if err != nil {
				return err
			}
			report, err := audit.Verify(path, o)
			var broken *audit.Broken
			switch {
			case errors.As(err, &broken) && asJSON:
				if err := printJSON(a.stdout, map[string]any{"ok": false, "seq": broken.Seq, "file": broken.File, "why": broken.Why}); err != nil {
					return err
				}
				return errQuiet(exitTool)
			case errors.As(err, &broken):
				return failf(exitTool, "%s was changed: %s", path, broken)
			case err != nil:
				return err
			case asJSON:
				return printJSON(a.stdout, struct {
					OK bool `json:"ok"`
					audit.Report
				}{true, report})
			}
			return printReport(a, path, report)
		},
	}
	cmd.Flags().StringVar(&configPath, "config", "", "configuration (default: the one of this folder, else yours)")
	cmd.Flags().StringVar(&key, "key", "", "the public key that must have signed, or a file with it")
	cmd.Flags().StringVar(&noted, "noted", "", "SEQ:HASH of a record that must be there")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// verifyOptions reads the flags of weir audit verify.
func verifyOptions(key, noted string) (o audit.VerifyOptions, err error) {
	if key != "" {
		public, err := audit.ParseKey(key)
		if err != nil {
			text, failed := os.ReadFile(key)
			if failed != nil {
				return o, failf(exitUsage, "--key %s: %w", key, err)
			}
			if public, err = audit.ParseKey(string(text)); err != nil {
				return o, failf(exitUsage, "--key %s: %w", key, err)
			}
		}
		o.Keys = []ed25519.PublicKey{public}
	}
	if noted != "" {
		seq, hash, _ := strings.Cut(noted, ":")
		if o.Seq, err = strconv.ParseUint(seq, 10, 64); err != nil || o.Seq == 0 || len(hash) != 64 {
			return o, failf(exitUsage, "--noted must be SEQ:HASH, such as the last line of weir audit verify")
		}
		o.Hash = hash
	}
	return o, nil
}

// printReport prints the outcome of a verification, for people.
func printReport(a *process, path string, r audit.Report) error {
	_, err := fmt.Fprintf(a.stdout, "%s is as it was written: records %d to %d, %s by %s\n", path, r.First, r.Last, counted(r.Signatures, "signature"), strings.Join(r.Keys, ", "))
	if err != nil {
		return err
	}
	if !r.Trusted {
		a.note("the key is the log's own; --key compares it with the one that you know")
	}
	for _, note := range r.Notes {
		if _, err := fmt.Fprintln(a.stdout, "note: "+a.stdout.clean(note)); err != nil {
			return err
		}
	}
	_, err = fmt.Fprintf(a.stdout, "to note down: %d:%s\n", r.Last, r.Hash)
	return err
}

// auditRecord is the part of a record that commands show.
type auditRecord struct {
	Time      time.Time `json:"time"`
	Kind      string    `json:"kind"`
	Principal string    `json:"principal"`
	IP        string    `json:"ip"`
	Call      string    `json:"call"`
	Method    string    `json:"method"`
	Server    string    `json:"server"`
	ToolID    string    `json:"tool_id"`
	Decision  string    `json:"decision"`
	Outcome   string    `json:"outcome"`
	MS        float64   `json:"ms"`
	Handle    string    `json:"handle"`
	Detail    string    `json:"detail"`
}

// what names the subject of a record.
func (r *auditRecord) what() string {
	for _, text := range []string{r.ToolID, r.Handle, r.Server, r.Method} {
		if text != "" {
			return text
		}
	}
	return r.Detail
}

// matches reports whether a record is about a tool, a server or a principal of that name.
func (r *auditRecord) matches(name string) bool {
	id := r.ToolID
	if at := strings.LastIndexAny(id, "@#"); at > 0 {
		id = id[:at]
	}
	return name == r.Principal || name == r.ToolID || name == r.Server || id != "" && (name == id || strings.HasSuffix(id, ":"+name))
}

// shownRecords bounds the rows of weir audit who, and the calls that wait for their end.
const shownRecords = 10_000

func auditWhoCommand(a *process) *cobra.Command {
	var configPath, dir string
	var since time.Duration
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "who TOOL|SERVER|PRINCIPAL",
		Short: "Show who called a tool, or what a principal called",
		Long: `Show who called a tool or a server, or what a principal called: when, from where, and
with which outcome. Refused calls and views of results are in it. A call without an
end is shown as "no end". At most the last 10,000 calls are shown.`,
		Example: "  weir audit who github:create_issue --since 24h\n  weir audit who corp:8a7f --dir /mnt/copy",
		Args:    positional(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			var given []string
			if dir != "" {
				given = []string{dir}
			}
			path, err := auditPath(a, cmd, given, configPath)
			if err != nil {
				return err
			}
			rows, err := callsOf(path, args[0], since)
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(a.stdout, map[string]any{"calls": rows})
			}
			if len(rows) == 0 {
				a.note("no call of %s is in the log", args[0])
				return nil
			}
			return printCalls(a.stdout, rows)
		},
	}
	cmd.Flags().StringVar(&configPath, "config", "", "configuration (default: the one of this folder, else yours)")
	cmd.Flags().StringVar(&dir, "dir", "", "folder of the log, or one file of it")
	cmd.Flags().DurationVar(&since, "since", 0, "only calls of the last time, such as 24h")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// callsOf returns the calls of a log that match a name, the oldest first.
func callsOf(path, name string, since time.Duration) (rows []auditRecord, err error) {
	after := time.Time{}
	if since > 0 {
		after = time.Now().Add(-since)
	}
	at := map[string]int{} // id of a call that has started → its row
	dropped := 0
	err = audit.Each(path, func(raw []byte) bool {
		var r auditRecord
		if json.Unmarshal(raw, &r) != nil || r.Time.Before(after) || !r.matches(name) {
			return true
		}
		switch r.Kind {
		case string(audit.Begin):
			r.Outcome = "no end"
			at[r.Call] = dropped + len(rows)
			rows = append(rows, r)
		case string(audit.End):
			if i, ok := at[r.Call]; ok && r.Call != "" && i >= dropped {
				rows[i-dropped].Outcome, rows[i-dropped].MS = r.Outcome, r.MS
			} else {
				rows = append(rows, r)
			}
			delete(at, r.Call)
		default:
			rows = append(rows, r)
		}
		if len(rows) >= 2*shownRecords {
			n := len(rows) - shownRecords
			rows = append([]auditRecord(nil), rows[n:]...)
			dropped += n
			for id, i := range at {
				if i < dropped {
					delete(at, id)
				}
			}
		}
		return true
	})
	return rows[max(0, len(rows)-shownRecords):], err
}

// printCalls prints calls as a table.
func printCalls(stdout terminal, list []auditRecord) error {
	var rows [][]cell
	for _, r := range list {
		outcome := r.Outcome
		if outcome == "" {
			outcome = r.Kind
		}
		style := ""
		if outcome != "ok" && outcome != "cached" && outcome != "task" {
			style = red
		}
		took := ""
		if r.MS > 0 {
			took = strconv.FormatFloat(r.MS, 'f', 1, 64)
		}
		rows = append(rows, []cell{
			{"", r.Time.Local().Format(time.DateTime)}, {"", r.Principal}, {"", r.what()}, {"", r.Method}, {style, outcome}, {"", took}, {dim, r.IP},
		})
	}
	return printTable(stdout, []column{{"TIME", whole}, {"PRINCIPAL", between}, {"WHAT", between}, {"METHOD", spare}, {"OUTCOME", whole}, {"MS", whole}, {"FROM", spare}}, rows)
}

func auditTailCommand(a *process) *cobra.Command {
	var configPath string
	var follow, asJSON, asOCSF bool
	var n int
	cmd := &cobra.Command{
		Use:   "tail [DIR|FILE]",
		Short: "Show the last records of the audit log",
		Long: `Show the last records of the audit log, one a line. --json prints the records as they are
in the files, --ocsf as events of the Open Cybersecurity Schema Framework.`,
		Example: "  weir audit tail -f",
		Args:    positional(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if n < 0 {
				return failf(exitUsage, "-n %d: it must not be negative", n)
			}
			path, err := auditPath(a, cmd, args, configPath)
			if err != nil {
				return err
			}
			var failed error
			err = audit.Tail(cmd.Context(), path, n, follow, func(raw []byte) bool {
				if asOCSF {
					raw = audit.OCSF(raw, a.version)
				}
				failed = printRecord(a.stdout, raw, asJSON || asOCSF)
				return failed == nil
			})
			return errors.Join(err, failed)
		},
	}
	cmd.Flags().StringVar(&configPath, "config", "", "configuration (default: the one of this folder, else yours)")
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on with what is written from now on")
	cmd.Flags().IntVarP(&n, "lines", "n", 20, "how many of the last records to show")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the records as they are in the files")
	cmd.Flags().BoolVar(&asOCSF, "ocsf", false, "print the records as events of OCSF")
	return cmd
}

// printRecord prints a record as one line.
func printRecord(stdout terminal, raw []byte, asJSON bool) error {
	var r auditRecord
	if asJSON || json.Unmarshal(raw, &r) != nil {
		_, err := fmt.Fprintln(stdout, stdout.clean(string(raw)))
		return err
	}
	words := []string{r.Time.Local().Format(time.DateTime), fmt.Sprintf("%-10s", r.Kind)}
	for _, text := range []string{r.Principal, r.what(), r.Decision, r.Outcome} {
		if text != "" {
			words = append(words, oneLine(text))
		}
	}
	if r.MS > 0 {
		words = append(words, strconv.FormatFloat(r.MS, 'f', 1, 64)+" ms")
	}
	_, err := fmt.Fprintln(stdout, stdout.clean(strings.Join(words, "  ")))
	return err
}
