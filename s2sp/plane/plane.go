package plane

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/s2sp/table"
)

// Names of the parameters that S2SP adds to tools.
const (
	ParamDomains  = "abstract_domains" // of a resource tool
	ParamMode     = "mode"
	ParamAbstract = "abstract_data" // of a consumer tool
	ParamURL      = "resource_url"
	ParamBody     = "body_data"
	ParamMapping  = "column_mapping"
)

// Mode says how the body of a result is transferred.
type Mode string

// The modes (spec/tables §2).
const (
	Async Mode = "async" // kept at the server, to be fetched from resource_url
	Sync  Mode = "sync"  // inline, for the agent's program to take out
)

// ErrMode: a mode that is neither async nor sync.
var ErrMode = errors.New("unknown mode")

// ParseMode reads the parameter mode; empty is Async.
func ParseMode(s string) (Mode, error) {
	switch m := Mode(strings.TrimSpace(s)); m {
	case "":
		return Async, nil
	case Async, Sync:
		return m, nil
	}
	return "", fmt.Errorf("%w %.40q: mode is \"async\" (the default) or \"sync\"", ErrMode, s)
}

// ModeOf reads mode from a call's arguments. Absent and null are Async.
func ModeOf(raw json.RawMessage) (Mode, error) {
	switch {
	case len(raw) == 0 || raw[0] == 'n':
		return Async, nil
	case raw[0] != '"':
		return "", fmt.Errorf("%w %.40s: mode is \"async\" (the default) or \"sync\"", ErrMode, raw)
	}
	return ParseMode(rawjson.Text(raw))
}

// ParseDomains reads the parameter abstract_domains: column names separated by commas or as a JSON
// array, blanks trimmed, each name once. Without names the parameter is absent: the tool then
// answers as any other.
func ParseDomains(s string) []string {
	s = strings.TrimSpace(s)
	var names []string
	if strings.HasPrefix(s, "[") {
		if err := rawjson.EachElement([]byte(s), func(v []byte) bool {
			name, err := rawjson.String(v)
			if err != nil { // a number, say: as it is written
				name = string(v)
			}
			names = append(names, name)
			return true
		}); err != nil { // an array as models write it sometimes: [event, 'severity']
			names = nil
			for name := range strings.SplitSeq(strings.Trim(s, "[]"), ",") {
				names = append(names, strings.Trim(strings.TrimSpace(name), `"'`))
			}
		}
	} else {
		names = strings.Split(s, ",")
	}
	kept := names[:0]
	seen := make(map[string]bool, len(names))
	for _, name := range names {
		if name = strings.TrimSpace(name); name != "" && !seen[name] {
			seen[name] = true
			kept = append(kept, name)
		}
	}
	if len(kept) == 0 {
		return nil
	}
	return kept
}

// DomainsOf reads abstract_domains from a call's arguments, where an agent may
// have put a JSON array in place of a string. Absent and null are no names.
func DomainsOf(raw json.RawMessage) ([]string, error) {
	switch {
	case len(raw) == 0 || raw[0] == 'n':
		return nil, nil
	case raw[0] == '"':
		s, err := rawjson.String(raw)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", ParamDomains, err)
		}
		return ParseDomains(s), nil
	case raw[0] == '[':
		return ParseDomains(string(raw)), nil
	}
	return nil, fmt.Errorf("%s must be column names with commas between them, not %.40s", ParamDomains, raw)
}

// Response writes the answer of a resource tool with abstract domains (spec/tables §1): in async
// mode with resourceURL, in sync mode with the body. Unknown domains are listed, project nothing,
// and are named in warnings.
func Response(t *table.Table, domains []string, mode Mode, resourceURL string) []byte {
	columns := t.Columns()
	wanted := make(map[string]bool, len(domains))
	for _, d := range domains {
		wanted[d] = true
	}
	body := make([]string, 0, len(columns))
	for _, c := range columns {
		if !wanted[c] {
			body = append(body, c)
		}
	}
	abstractView := t.View().Project(domains).WithRowID()
	size := abstractView.JSONSize() + 4096
	bodyView := t.View().Project(body).WithRowID()
	if mode == Sync {
		size += bodyView.JSONSize()
	}
	out := make([]byte, 0, size)
	out = strconv.AppendInt(append(out, `{"total_rows":`...), int64(t.Len()), 10)
	out = appendNames(append(out, `,"columns":`...), columns)
	out = appendNames(append(out, `,"abstract_domains":`...), domains)
	out = appendNames(append(out, `,"body_domains":`...), body)
	if mode != Sync {
		out = rawjson.AppendString(append(out, `,"resource_url":`...), resourceURL)
	}
	out = abstractView.AppendJSON(append(out, `,"abstract":`...))
	if mode == Sync {
		out = bodyView.AppendJSON(append(out, `,"body":`...))
	}
	if warnings := warn(t, domains, columns); len(warnings) > 0 {
		out = appendNames(append(out, `,"warnings":`...), warnings)
	}
	return append(out, '}')
}

func warn(t *table.Table, domains, columns []string) (warnings []string) {
	var unknown []string
	for _, d := range domains {
		if !t.Has(d) && d != table.RowID {
			unknown = append(unknown, strconv.Quote(d))
		}
	}
	if len(unknown) > 0 {
		warnings = append(warnings, fmt.Sprintf("abstract_domains names no column: %s; %s", strings.Join(unknown, ", "), there(columns)))
	}
	if n := t.Nulled(); n > 0 {
		warnings = append(warnings, rawjson.FiniteNote(n))
	}
	return warnings
}

// there lists the existing columns in an error.
func there(columns []string) string {
	if len(columns) == 0 {
		return "there are no columns, because there are no rows"
	}
	return "there are " + table.NamesText(columns, 60)
}

func appendNames(dst []byte, names []string) []byte {
	dst = append(dst, '[')
	for i, name := range names {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = rawjson.AppendString(dst, name)
	}
	return append(dst, ']')
}

// URL returns the resource_url of a token at a server whose data plane is at base, such as
// "http://127.0.0.1:8088".
func URL(base, token string) string { return strings.TrimSuffix(base, "/") + Path + token }

// Path is the path of resources.
const Path = "/s2sp/data/"
