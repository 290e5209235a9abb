package result

import (
	"strings"
	"testing"
)

func TestJSONPathFilter(t *testing.T) {
	doc := `{"limit":3,"orders":[{"id":0,"status":"late","n":3,"tags":["a"]},{"id":1,"status":"l\u0061te","n":3.0},{"id":2,"n":10,"status":null,"tags":[]},{"id":3,"n":"10","ok":true,"o'k":1},7]}`
	for _, tt := range []struct{ filter, want string }{
		{"@.status=='late'", "0 1"},
		{`@.status == "late"`, "0 1"},
		{"(@.status=='late')", "0 1"},
		{"@['status'] != 'late'", "2 3 -"},
		{"@.status==null", "2"},
		{"@.status", "0 1 2"},
		{"!@.status", "3 -"},
		{"!(@.status=='late')", "2 3 -"},
		{"@.n==3", "0 1"},
		{"@.n>3", "2"},
		{"@.n>=3e0", "0 1 2"},
		{"3 < @.n", "2"},
		{"@.n<'2'", "3"},
		{"@.n==$.limit", "0 1"},
		{"@.n>$.limit", "2"},
		{"@.n>1 && @.tags", "0 2"},
		{"@.n>1 && @.tags[0]", "0"},
		{"@.tags[?@=='a']", "0"},
		{"@.tags == $.orders[2].tags", "2"},
		{"@.n==10 || @.status=='late' && @.id>0", "1 2"},
		{"(@.n==10||@.status=='late')&&@.id>0", "1 2"},
		{"@.missing == @.absent", "0 1 2 3 -"},
		{"@.missing <= @.absent", "0 1 2 3 -"},
		{"@.missing < 1", ""},
		{"@.ok == true", "3"},
		{"@.ok <= true", "3"},
		{`@['o\'k'] == 1`, "3"},
		{"@ == 7", "-"},
		{"@.id == -1 || @.id == 0", "0"},
		{"\n@.id\n==\n2\n", "2"},
		{"@..a", ""},
		{"$.orders[9]", ""},
	} {
		p, err := parseJSONPath("$.orders[?" + tt.filter + "]")
		if err != nil {
			t.Errorf("%s: %v", tt.filter, err)
			continue
		}
		if p.definite() {
			t.Errorf("%s is taken for a path of one value", tt.filter)
		}
		var got []string
		if !p.each(nil, []byte(doc), func(m []byte) bool {
			id := "-"
			if m[0] == '{' {
				id = string(m[len(`{"id":`)])
			}
			got = append(got, id)
			return true
		}) {
			t.Errorf("%s: out of budget", tt.filter)
		}
		if s := strings.Join(got, " "); s != tt.want {
			t.Errorf("%s selects %q, want %q", tt.filter, s, tt.want)
		}
	}
	p, err := parseJSONPath("$..[?@.id>1].n")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	p.each(nil, []byte(doc), func(m []byte) bool { got = append(got, string(m)); return true })
	if s := strings.Join(got, " "); s != `10 "10"` {
		t.Errorf("%s", s)
	}
}

func TestJSONPathFilterErrors(t *testing.T) {
	for filter, want := range map[string]string{
		"":                                 "the filter is not complete",
		"]":                                "expected a path such as @.name",
		"@.a==]":                           "expected a path such as @.name",
		"@.a=1]":                           `"=" is no operator`,
		"'a']":                             "a literal has to be compared",
		"(@.a]":                            `expected ")"`,
		"@.a && ]":                         "expected a path such as @.name",
		"@.a and @.b]":                     `expected "]"`,
		"status=='late']":                  "expected a path such as @.name",
		"@.*==1]":                          "only a path of at most one value can be compared, not @.*",
		"length(@.a)>1]":                   "functions such as length() are not supported",
		"!@.a==1]":                         `"!" stands before`,
		"@.a=='x]":                         "is not closed",
		"@" + numbered(".a", 65, "") + "]": "more than 64 segments",
	} {
		_, err := parseJSONPath("$[?" + filter)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %v, want %q", filter, err, want)
		}
	}
}

// A path from "$" in a filter is followed once, not once for each element.
func TestJSONPathFilterIsLinear(t *testing.T) {
	doc := []byte(`{"rows":[` + numbered(`{"n":#}`, 20_000, ",") + `],"max":19998}`)
	p, err := parseJSONPath("$.rows[?@.n>$.max || @.n<$.rows[1].n].n")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	if !p.each(nil, doc, func(m []byte) bool { got = append(got, string(m)); return true }) || strings.Join(got, " ") != "0 19999" {
		t.Errorf("%v", got)
	}
	p, err = parseJSONPath("$..[?@" + strings.Repeat("..[?@", 20) + strings.Repeat("]", 21))
	if err != nil {
		t.Fatal(err)
	}
	nested := strings.Repeat("[", 400) + strings.Repeat("]", 400)
	if p.each(nil, []byte(nested), func([]byte) bool { return true }) {
		t.Error("filters of many descents end within the budget: make the test harder")
	}
}
