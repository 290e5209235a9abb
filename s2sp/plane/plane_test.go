package plane_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/s2sp/plane"
	"github.com/weir-mcp/weir/s2sp/table"
)

func index(t testing.TB, data string, opts table.Options) *table.Table {
	t.Helper()
	tab, err := table.Index([]byte(data), opts)
	if err != nil {
		t.Fatal(err)
	}
	return tab
}

func TestParseDomains(t *testing.T) {
	for _, c := range []struct {
		in   string
		want []string
	}{
		{"", nil},
		{"  ", nil},
		{",, ,", nil},
		{"[]", nil},
		{"event", []string{"event"}},
		{" event , severity,,event ", []string{"event", "severity"}},
		{`["event"," severity ","a,b"]`, []string{"event", "severity", "a,b"}},
		{`[1,"x"]`, []string{"1", "x"}},
		{`[event, 'severity', "x"]`, []string{"event", "severity", "x"}},
		{`["event"`, []string{"event"}},
	} {
		if got := plane.ParseDomains(c.in); !slices.Equal(got, c.want) {
			t.Errorf("ParseDomains(%q) = %q, want %q", c.in, got, c.want)
		}
	}
	for raw, want := range map[string]string{``: "[]", `null`: "[]", `"a, b"`: `["a" "b"]`, `["a","b"]`: `["a" "b"]`} {
		if got, err := plane.DomainsOf([]byte(raw)); err != nil || fmt.Sprintf("%q", got) != want {
			t.Errorf("DomainsOf(%s) = %q, %v", raw, got, err)
		}
	}
	if _, err := plane.DomainsOf([]byte(`{"a":1}`)); err == nil || !strings.Contains(err.Error(), "abstract_domains") {
		t.Errorf("an object: %v", err)
	}
}

func TestParseMode(t *testing.T) {
	for in, want := range map[string]plane.Mode{"": plane.Async, " async": plane.Async, "sync": plane.Sync} {
		if got, err := plane.ParseMode(in); err != nil || got != want {
			t.Errorf("ParseMode(%q) = %q, %v", in, got, err)
		}
	}
	if _, err := plane.ParseMode("later"); !errors.Is(err, plane.ErrMode) || !strings.Contains(err.Error(), "sync") {
		t.Errorf("error %v", err)
	}
}

const alerts = `[{"event":"Wind","severity":"Moderate","n":12345678901234567890},{"event":"Flood","text":"\ud83d\ude00","severity":null}]`

func TestResponse(t *testing.T) {
	const head = `{"total_rows":2,"columns":["event","severity","n","text"],"abstract_domains":`
	for _, c := range []struct {
		name, data string
		domains    []string
		mode       plane.Mode
		want       string
	}{
		{"async", alerts, []string{"severity", "event"}, plane.Async, head + `["severity","event"],"body_domains":["n","text"],"resource_url":"http://h:1/s2sp/data/T",` +
			`"abstract":[{"_row_id":0,"severity":"Moderate","event":"Wind"},{"_row_id":1,"severity":null,"event":"Flood"}]}`},
		{"an absent field stays absent", alerts, []string{"n"}, plane.Async, head + `["n"],"body_domains":["event","severity","text"],"resource_url":"http://h:1/s2sp/data/T",` +
			`"abstract":[{"_row_id":0,"n":12345678901234567890},{"_row_id":1}]}`},
		{"sync", alerts, []string{"event"}, plane.Sync, head + `["event"],"body_domains":["severity","n","text"],` +
			`"abstract":[{"_row_id":0,"event":"Wind"},{"_row_id":1,"event":"Flood"}],` +
			`"body":[{"_row_id":0,"severity":"Moderate","n":12345678901234567890},{"_row_id":1,"severity":null,"text":"\ud83d\ude00"}]}`},
		{"all columns", alerts, []string{"event", "severity", "n", "text"}, plane.Sync, head + `["event","severity","n","text"],"body_domains":[],` +
			`"abstract":[{"_row_id":0,"event":"Wind","severity":"Moderate","n":12345678901234567890},{"_row_id":1,"event":"Flood","severity":null,"text":"\ud83d\ude00"}],"body":[{"_row_id":0},{"_row_id":1}]}`},
		{"unknown columns", alerts, []string{"event", "evnt", "_row_id"}, plane.Async, head + `["event","evnt","_row_id"],"body_domains":["severity","n","text"],"resource_url":"http://h:1/s2sp/data/T",` +
			`"abstract":[{"_row_id":0,"event":"Wind"},{"_row_id":1,"event":"Flood"}],"warnings":["abstract_domains names no column: \"evnt\"; there are event, severity, n, text"]}`},
		{"no rows", `[]`, []string{"event"}, plane.Async, `{"total_rows":0,"columns":[],"abstract_domains":["event"],"body_domains":[],"resource_url":"http://h:1/s2sp/data/T","abstract":[],` +
			`"warnings":["abstract_domains names no column: \"event\"; there are no columns, because there are no rows"]}`},
		{"a _row_id of its own", `[{"_row_id":"x","a":1}]`, []string{"a"}, plane.Sync, `{"total_rows":1,"columns":["_row_id_data","a"],"abstract_domains":["a"],"body_domains":["_row_id_data"],` +
			`"abstract":[{"_row_id":0,"a":1}],"body":[{"_row_id":0,"_row_id_data":"x"}]}`},
	} {
		got := string(plane.Response(index(t, c.data, table.Options{}), c.domains, c.mode, plane.URL("http://h:1/", "T")))
		if got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.name, got, c.want)
		}
		if err := rawjson.Valid([]byte(got)); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func TestParseRequest(t *testing.T) {
	for body, want := range map[string]string{
		``: "{[] []}", ` {} `: "{[] []}", `{"row_ids":[],"columns":null}`: "{[] []}",
		`{"row_ids":[0,2.0,"5",1e1],"columns":["a","\u0062"],"other":1}`: "{[0 2 5 10] [a b]}",
	} {
		if got, err := plane.ParseRequest([]byte(body)); err != nil || fmt.Sprint(got) != want {
			t.Errorf("ParseRequest(%s) = %v, %v", body, got, err)
		}
	}
	for _, body := range []string{`x`, `[]`, `"a"`, `{"row_ids":`, `{"row_ids":7}`, `{"row_ids":[1.5]}`, `{"row_ids":[1e400]}`, `{"row_ids":["nan"]}`, `{"row_ids":[{}]}`, `{"columns":"a"}`, `{"columns":[1]}`, `{} {}`, `{"columns":[],"columns":[]}`} {
		if _, err := plane.ParseRequest([]byte(body)); !errors.Is(err, plane.ErrRequest) {
			t.Errorf("ParseRequest(%s) = %v, want ErrRequest", body, err)
		}
	}
}

// source is a data plane that knows one table.
type source struct {
	rows  string
	asked string
	err   error
}

func (s *source) Fetch(_ context.Context, resourceURL string, rowIDs []int, columns []string) (*table.Table, error) {
	s.asked = fmt.Sprintf("%s%v%v", resourceURL, rowIDs, columns)
	if s.err != nil {
		return nil, s.err
	}
	return table.Index([]byte(s.rows), table.Options{KeepRowID: true})
}

func TestResolve(t *testing.T) {
	const body = `[{"_row_id":0,"text":"zero","a":"hidden"},{"_row_id":1,"text":"one"},{"_row_id":2,"n":12345678901234567890}]`
	const url = "http://h:1/s2sp/data/T"
	for _, c := range []struct {
		name  string
		in    plane.Input
		want  string
		asked string
	}{
		{"async", plane.Input{AbstractData: `[{"_row_id":2,"a":1},{"_row_id":0,"a":2}]`, ResourceURL: " " + url + " "},
			`[{"_row_id":2,"a":1,"n":12345678901234567890},{"_row_id":0,"a":2,"text":"zero"}]`, url + "[2 0][]"},
		{"sync", plane.Input{AbstractData: `[{"_row_id":1,"a":null}]`, BodyData: body}, `[{"_row_id":1,"a":null,"text":"one"}]`, ""},
		{"the url goes first", plane.Input{AbstractData: `[{"_row_id":1}]`, BodyData: `[{"_row_id":1,"x":1}]`, ResourceURL: url}, `[{"_row_id":1,"text":"one"}]`, url + "[1][]"},
		{"no body", plane.Input{AbstractData: `[{"_row_id":1,"a":3}]`}, `[{"_row_id":1,"a":3}]`, ""},
		{"no rows", plane.Input{AbstractData: `[]`, ResourceURL: url}, `[]`, ""},
		{"nothing", plane.Input{AbstractData: ` `, BodyData: body}, `[]`, ""},
		{"rows without a number", plane.Input{AbstractData: `[{"a":1},{"_row_id":null,"a":2},{"_row_id":1,"a":3}]`, BodyData: body}, `[{"_row_id":1,"a":3,"text":"one"}]`, ""},
		{"no numbers at all", plane.Input{AbstractData: `[{"a":1}]`, ResourceURL: url}, `[]`, ""},
		{"a body without numbers", plane.Input{AbstractData: `[{"_row_id":0,"a":1}]`, BodyData: `[{"text":"zero"}]`}, `[{"_row_id":0,"a":1}]`, ""},
		{"a number that is not there", plane.Input{AbstractData: `[{"_row_id":9,"a":1}]`, BodyData: body}, `[{"_row_id":9,"a":1}]`, ""},
		{"numbers are compared by value", plane.Input{AbstractData: `[{"_row_id":1.0}]`, BodyData: body}, `[{"_row_id":1.0,"text":"one"}]`, ""},
		{"numbers are asked for by value", plane.Input{AbstractData: `[{"_row_id":1.0}]`, ResourceURL: url}, `[{"_row_id":1.0,"text":"one"}]`, url + "[1][]"},
		{"the last of two bodies", plane.Input{AbstractData: `[{"_row_id":1}]`, BodyData: `[{"_row_id":1,"x":1},{"_row_id":1,"x":2}]`}, `[{"_row_id":1,"x":2}]`, ""},
		{"one row twice", plane.Input{AbstractData: `[{"_row_id":1},{"_row_id":1}]`, BodyData: body}, `[{"_row_id":1,"text":"one"},{"_row_id":1,"text":"one"}]`, ""},
		{"renamed on both sides", plane.Input{AbstractData: `[{"_row_id":0,"a":2}]`, ResourceURL: url, ColumnMapping: `{"text":"story","a":"amount"}`},
			`[{"_row_id":0,"amount":2,"story":"zero"}]`, url + "[0][]"},
		{"renamed onto abstract's", plane.Input{AbstractData: `[{"_row_id":0,"a":2}]`, BodyData: `[{"_row_id":0,"text":"zero"}]`, ColumnMapping: `{"text":"a"}`}, `[{"_row_id":0,"a":2}]`, ""},
		{"the number keeps its name", plane.Input{AbstractData: `[{"_row_id":0,"a":2}]`, BodyData: body, ColumnMapping: `{"_row_id":"id","a":"_row_id"}`}, `[{"_row_id":0,"a":2,"text":"zero"}]`, ""},
	} {
		from := &source{rows: body}
		got, _, err := plane.Resolve(t.Context(), c.in, from)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if text := string(got.View().AppendJSON(nil)); text != c.want || from.asked != c.asked {
			t.Errorf("%s:\n got %s\nwant %s\nasked %q, want %q", c.name, text, c.want, from.asked, c.asked)
		}
	}
	for _, c := range []struct {
		in   plane.Input
		says string
	}{
		{plane.Input{AbstractData: `{"a":1}`}, "abstract_data"},
		{plane.Input{AbstractData: `[1]`}, "abstract_data"},
		{plane.Input{AbstractData: `[{"_row_id":0}]`, BodyData: `x`}, "body_data"},
		{plane.Input{AbstractData: `[{"_row_id":0}]`, ColumnMapping: `[]`}, "column_mapping"},
		{plane.Input{AbstractData: `[{"_row_id":0}]`, ColumnMapping: `{"a":1}`}, `"a"`},
	} {
		if _, _, err := plane.Resolve(t.Context(), c.in, &source{}); !errors.Is(err, plane.ErrInput) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%+v: %v, want ErrInput with %q", c.in, err, c.says)
		}
	}
	if _, _, err := plane.Resolve(t.Context(), plane.Input{AbstractData: `[{"_row_id":0}]`, ResourceURL: url}, &source{err: plane.ErrGone}); !errors.Is(err, plane.ErrGone) {
		t.Errorf("error %v, want the source's", err)
	}
}

// A mapping that makes one column of several says so; one that exchanges names does not.
func TestMappingThatLosesAColumn(t *testing.T) {
	for mapping, want := range map[string]string{
		`{"v":"k"}`:         `column_mapping makes one column "k" of k, v: a row with`,
		`{"v":"x","w":"x"}`: `one column "x" of v, w`,
		`{"w":"v"}`:         `one column "v" of v, w`,
		`{"v":"k","k":"v"}`: "",
		`{"v":"other"}`:     "",
		`{"v":"v"}`:         "",
		`{"nothing":"k"}`:   "",
		`{"v":"_row_id"}`:   "",
		``:                  "",
	} {
		in := plane.Input{AbstractData: `[{"_row_id":0,"k":1}]`, BodyData: `[{"_row_id":0,"k":1,"v":2,"w":3}]`, ColumnMapping: mapping}
		_, warnings, err := plane.Resolve(t.Context(), in, nil)
		if err != nil || (want == "") != (len(warnings) == 0) || want != "" && !strings.Contains(warnings[0], want) {
			t.Errorf("%s: %q, %v", mapping, warnings, err)
		}
	}
}
