package cli

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weir-mcp/weir/internal/metatool"
	"github.com/weir-mcp/weir/s2sp/table"
)

const selectorHelp = `A selector says which part of a kept result to show. It is JSON, as an agent
writes it, or the same in a few words:

  head [CHARS]             {"type":"head","chars":500}       the beginning
  lines START [END]        {"type":"lines","start":0,"end":20}
  tail [LINES]             {"type":"tail","lines":20}         the last lines
  headings                 {"type":"headings"}                of Markdown, numbered
  section HEADING          {"type":"section","heading":"Usage"}
  rows START [END]         {"type":"rows","start":0,"end":5}  rows of a table, or lines
  json_keys [KEY ...]      {"type":"json_keys","keys":["a","b"]}
  json_path PATH           {"type":"json_path","path":"$.items[0:5].name"}
  search PATTERN           {"type":"search","pattern":"(?i)error","context":2,"limit":20}
  table [COLUMN ...]       {"type":"table","columns":["event","wind"],"limit":50,
                            "where":[{"column":"wind","op":"gt","value":90}],
                            "order_by":["-wind"],"group_by":["event"],
                            "aggregate":[{"op":"max","column":"wind"}]}
  cancel                   {"type":"cancel"}                  a task, by its handle task_…

Further parameters follow as NAME=VALUE: search error context=2 limit=5. Columns
are separated by blanks or commas: table event wind, or table event,wind.
Counting starts at 0 and END is not included; below 0 counts from the end. lines
and tail take numbers=true.`

func viewCommand(a *process) *cobra.Command {
	var (
		t      target
		asJSON bool
	)
	cmd := &cobra.Command{
		Use:   "view HANDLE [SELECTOR]",
		Short: "Show a part of a long result",
		Long: `Show a part of a result that weir call kept, by its handle. Without a selector it
is the beginning. Handles live in the gateway that gave them: view asks the one
that runs, with the token that made the call. With --profile it asks at a profile,
where the handles of the calls at that profile work, as for its clients.

` + selectorHelp,
		Example: `  weir view art_… rows 0 5
  weir view art_… search 'Tornado Warning' limit=3
  weir view art_… table event wind_kmh order_by=-wind_kmh
  weir view art_… '{"type":"json_path","path":"$.result[0]"}'`,
		Args: positional(cobra.MinimumNArgs(1)),
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
			if len(args) != 1 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			var kinds []cobra.Completion
			for _, s := range shortSelectors {
				kinds = append(kinds, s.name)
			}
			return kinds, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			selector, err := parseSelector(args[1:])
			if err != nil {
				return err
			}
			c, err := openTarget(a, cmd.Context(), t)
			if err != nil {
				return err
			}
			defer c.close()
			if c.own {
				return failf(exitUsage, "no gateway runs with %s, and handles end with the process that gave them: run weir serve --config %s, call the tool there, and view its handle there", c.where, c.where)
			}
			format := "text"
			if asJSON {
				format = "json"
			}
			r, err := c.ask(cmd.Context(), metatool.ToolView, viewArgs{args[0], selector}, format, nil)
			switch {
			case err != nil:
				return refuse(a.stdout, err, asJSON)
			case asJSON:
				return printJSON(a.stdout, r.forPrograms())
			}
			return printResult(a, r)
		},
	}
	t.flags(cmd)
	cmd.Flags().StringVar(&t.profile, "profile", "", "ask at this profile of the catalog")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON, with the selector that goes on")
	return cmd
}

// viewArgs are the arguments of tool_view.
type viewArgs struct {
	Handle   string          `json:"handle"`
	Selector json.RawMessage `json:"selector"`
}

// shortSelectors are the selector types that can be written in words, with the parameters for the
// words after the type.
var shortSelectors = []struct {
	name   string
	params []string
	min    int
}{
	{"head", []string{"chars"}, 0},
	{"lines", []string{"start", "end"}, 0},
	{"tail", []string{"lines"}, 0},
	{"headings", []string{"level"}, 0},
	{"section", []string{"heading"}, 1},
	{"rows", []string{"start", "end"}, 0},
	{"json_keys", nil, 0}, // any number of keys
	{"json_path", []string{"path"}, 1},
	{"search", []string{"pattern"}, 1},
	{"cancel", nil, 0},
	{"table", nil, 0}, // any number of columns
}

// parseSelector parses a selector from the words of a command line.
func parseSelector(words []string) (json.RawMessage, error) {
	if len(words) == 1 {
		words = strings.Fields(words[0]) // also: weir view HANDLE 'lines 0 20'
		if len(words) > 0 && words[0][0] == '{' {
			return wholeSelector(strings.Join(words, " "))
		}
	}
	if len(words) == 0 {
		return json.RawMessage(`{"type":"head"}`), nil
	}
	if words[0][0] == '{' {
		return wholeSelector(strings.Join(words, " "))
	}
	i := slices.IndexFunc(shortSelectors, func(s struct {
		name   string
		params []string
		min    int
	}) bool {
		return s.name == words[0]
	})
	if i < 0 {
		return nil, failf(exitUsage, "unknown selector %q; see weir help selectors", words[0])
	}
	kind := shortSelectors[i]
	out := map[string]any{"type": kind.name}
	plain := 0
	for _, word := range words[1:] {
		if name, value, ok := strings.Cut(word, "="); ok && selectorParam(name) && (plain >= kind.min) {
			out[name] = wordValue(name, value)
			continue
		}
		switch {
		case kind.name == "json_keys":
			keys, _ := out["keys"].([]string)
			out["keys"] = append(keys, word)
		case kind.name == "table":
			columns, _ := out["columns"].([]string)
			out["columns"] = append(columns, table.SplitNames(word)...)
		case plain < len(kind.params):
			out[kind.params[plain]] = wordValue(kind.params[plain], word)
		default:
			return nil, failf(exitUsage, "%s does not take %q; see weir help selectors", kind.name, word)
		}
		plain++
	}
	if plain < kind.min && out[kind.params[0]] == nil {
		return nil, failf(exitUsage, "%s needs its %s; see weir help selectors", kind.name, strings.ToUpper(kind.params[0]))
	}
	raw, err := json.Marshal(out)
	if err != nil {
		return nil, failf(exitUsage, "the selector: %w", err)
	}
	return raw, nil
}

func wholeSelector(text string) (json.RawMessage, error) {
	if !json.Valid([]byte(text)) {
		return nil, failf(exitUsage, "the selector is not JSON: %s", cut(text, 80))
	}
	return json.RawMessage(text), nil
}

func selectorParam(name string) bool {
	return slices.Contains([]string{"chars", "start", "end", "context", "limit", "path", "pattern", "columns", "offset", "numbers", "level", "heading", "order_by", "group_by"}, name)
}

// wordValue returns a number if the parameter is numeric. A word that is not a number is sent
// unchanged; the gateway's error names the parameter.
func wordValue(name, word string) any {
	switch name {
	case "path", "pattern", "columns":
		return word
	case "order_by", "group_by":
		return strings.Split(word, ",")
	case "numbers":
		return word == "true"
	}
	if n, err := strconv.Atoi(word); err == nil {
		return n
	}
	return word
}
