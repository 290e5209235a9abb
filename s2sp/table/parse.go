package table

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/weir-mcp/weir/internal/json/rawjson"
)

// maxTerms bounds the conditions, columns and aggregates of one parsed query.
const maxTerms = 1000

// ParseQuery reads a query from the selector object of tool_view:
//
//	{"columns": ["event", …], "where": [{"column": "wind", "op": "gt", "value": 60}, …],
//	 "order_by": ["-wind", {"column": "event", "desc": true}, …], "offset": 0, "limit": 50,
//	 "group_by": ["event", …], "aggregate": [{"op": "max", "column": "wind", "as": "strongest"}, …]}
//
// All members are optional; the default limit is DefaultLimit. A single element may be given
// without a list, and columns may be one string with commas. A member "type" is ignored. The error
// is a *QueryError that names the parameter.
func ParseQuery(raw json.RawMessage) (Query, error) {
	q := Query{Limit: DefaultLimit}
	if !rawjson.IsObject(raw) {
		return q, badQuery("selector", "must be an object")
	}
	var failed error
	seen := map[string]bool{}
	err := rawjson.EachMember(raw, func(m rawjson.Member) bool {
		key := string(m.Key)
		if seen[key] {
			failed = badQuery(shorten(key), "stands twice")
			return false
		}
		seen[key] = true
		if kindOf(m.Value) == kindNull {
			return true
		}
		switch key {
		case "type":
		case "columns":
			q.Columns, failed = parseNames(key, m.Value)
		case "group_by":
			q.GroupBy, failed = parseNames(key, m.Value)
		case "where":
			failed = eachTerm(key, m.Value, func(param string, v []byte) error {
				c, err := parseCondition(param, v)
				q.Where = append(q.Where, c)
				return err
			})
		case "order_by":
			failed = eachTerm(key, m.Value, func(param string, v []byte) error {
				o, err := parseOrder(param, v)
				q.OrderBy = append(q.OrderBy, o)
				return err
			})
		case "aggregate":
			failed = eachTerm(key, m.Value, func(param string, v []byte) error {
				a, err := parseAggregate(param, v)
				q.Aggregate = append(q.Aggregate, a)
				return err
			})
		case "offset":
			q.Offset, failed = parseCount(key, m.Value, 0)
		case "limit":
			q.Limit, failed = parseCount(key, m.Value, 1)
		default:
			failed = badQuery(shorten(key), "is no parameter of table, whose parameters are columns, where, order_by, offset, limit, aggregate, group_by")
		}
		return failed == nil
	})
	if failed != nil {
		return q, failed
	}
	if err != nil {
		return q, badQuery("selector", "is no JSON: %v", err)
	}
	return q, nil
}

func shorten(s string) string { return strconv.Quote(cut(s)) }

// cut shortens a part of a query for a message.
func cut(s string) string {
	if len(s) > 60 {
		s = strings.ToValidUTF8(s[:60], "") + "…"
	}
	return s
}

// eachTerm calls f for each element of a list, or for a value that is not a list.
func eachTerm(param string, raw []byte, f func(param string, v []byte) error) error {
	if raw[0] != '[' {
		return f(param, raw)
	}
	n := 0
	var failed error
	err := rawjson.EachElement(raw, func(v []byte) bool {
		if n >= maxTerms {
			failed = badQuery(param, "has more than %d entries", maxTerms)
		} else {
			failed = f(fmt.Sprintf("%s[%d]", param, n), v)
		}
		n++
		return failed == nil
	})
	if failed == nil && err != nil {
		return badQuery(param, "is no JSON: %v", err)
	}
	return failed
}

func parseNames(param string, raw []byte) ([]string, error) {
	if raw[0] == '"' {
		if bytes.Count(raw, []byte{','}) >= maxTerms {
			return nil, badQuery(param, "has more than %d entries", maxTerms)
		}
		return SplitNames(rawjson.Text(raw)), nil
	}
	names := []string{}
	err := eachTerm(param, raw, func(param string, v []byte) error {
		name, err := rawjson.String(v)
		if err != nil {
			return badQuery(param, "must be a string, not a %s", kindOf(v))
		}
		names = append(names, name)
		return nil
	})
	return names, err
}

// SplitNames splits a list of names at commas, trims blanks and drops empty names.
func SplitNames(list string) []string {
	var names []string
	for name := range strings.SplitSeq(list, ",") {
		if name = strings.TrimSpace(name); name != "" {
			names = append(names, name)
		}
	}
	return names
}

func parseCount(param string, raw []byte, least int) (int, error) {
	n, ok := rawjson.Int(raw)
	if !ok || n < least {
		return 0, badQuery(param, "must be a whole number of %d or more, not %s", least, cut(string(raw)))
	}
	return n, nil
}

// members reads an object of a query. Unknown keys are errors.
func members(param string, raw []byte, known ...string) (map[string][]byte, error) {
	if raw[0] != '{' {
		return nil, badQuery(param, "must be an object with %s", strings.Join(known, ", "))
	}
	found := map[string][]byte{}
	var failed error
	err := rawjson.EachMember(raw, func(m rawjson.Member) bool {
		key := string(m.Key)
		ok := found[key] == nil
		if ok {
			ok = false
			for _, k := range known {
				ok = ok || k == key
			}
		}
		if !ok {
			failed = badQuery(param, "has %s, which is unknown or stands twice; there are %s", shorten(key), strings.Join(known, ", "))
			return false
		}
		found[key] = m.Value
		return true
	})
	if failed == nil && err != nil {
		failed = badQuery(param, "is no JSON: %v", err)
	}
	return found, failed
}

func text(param string, raw []byte, required bool) (string, error) {
	if raw == nil && !required {
		return "", nil
	}
	if raw == nil {
		return "", badQuery(param, "is missing")
	}
	s, err := rawjson.String(raw)
	if err != nil {
		return "", badQuery(param, "must be a string, not a %s", kindOf(raw))
	}
	return s, nil
}

func parseCondition(param string, raw []byte) (c Condition, err error) {
	m, err := members(param, raw, "column", "op", "value")
	if err != nil {
		return c, err
	}
	if c.Column, err = text(param+".column", m["column"], true); err != nil {
		return c, err
	}
	c.Op = "eq"
	if m["op"] != nil {
		if c.Op, err = text(param+".op", m["op"], true); err != nil {
			return c, err
		}
	}
	c.Value = m["value"]
	return c, c.check(param)
}

func parseOrder(param string, raw []byte) (o Order, err error) {
	if raw[0] == '"' {
		o.Column = rawjson.Text(raw)
		return o, nil
	}
	m, err := members(param, raw, "column", "desc", "order")
	if err != nil {
		return o, err
	}
	if o.Column, err = text(param+".column", m["column"], true); err != nil {
		return o, err
	}
	switch string(m["desc"]) {
	case "", "false":
	case "true":
		o.Descending = true
	default:
		return o, badQuery(param+".desc", "must be a boolean")
	}
	switch order, err := text(param+".order", m["order"], false); {
	case err != nil:
		return o, err
	case order == "desc":
		o.Descending = true
	case order != "" && order != "asc":
		return o, badQuery(param+".order", "is asc or desc, not %s", shorten(order))
	}
	return o, nil
}

func parseAggregate(param string, raw []byte) (a Aggregate, err error) {
	m, err := members(param, raw, "op", "column", "as")
	if err != nil {
		return a, err
	}
	if a.Op, err = text(param+".op", m["op"], true); err != nil {
		return a, err
	}
	if a.Column, err = text(param+".column", m["column"], false); err != nil {
		return a, err
	}
	a.As, err = text(param+".as", m["as"], false)
	return a, err
}
