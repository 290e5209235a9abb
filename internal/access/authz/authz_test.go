package authz

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/identity"
)

func sample() *Input {
	return &Input{
		Identity: &identity.Identity{Principal: "corp:u1", Issuer: "corp", Client: "web", Groups: []string{"dev", "sre"}, Roles: []string{"operator"},
			Scopes: []string{"repo:read"}, Claims: map[string]any{"dept": "it", "level": json.Number("3"), "ratio": json.Number("0.5")}},
		Server: "github", Method: "tools/call", Source: "10.0.0.1", Calls: 3, Age: time.Minute,
		RunCalls: 7, RunWrites: 2,
		Flow: func() Flow { return Flow{Integrity: "untrusted", Sources: []string{"mail:read"}} },
		Now:  time.Date(2026, 11, 22, 13, 0, 0, 0, time.UTC),
		Tool: &Tool{ID: "github:merge#1", Namespace: "github", Name: "merge", Tags: []string{"git"}, Destructive: true},
		Args: json.RawMessage(`{"repo":"acme/x","n":3,"big":12345678901234567890,"list":[1,2]}`),
	}
}

func TestExpressions(t *testing.T) {
	for _, tt := range []struct {
		text string
		want Truth
	}{
		{`tool.destructive && args.repo.startsWith("acme/")`, Yes},
		{`"sre" in groups`, Yes},
		{`"ops" in groups || "operator" in roles`, Yes},
		{`scopes.exists(s, s.startsWith("repo:"))`, Yes},
		{`args.n < 4`, Yes},
		{`args.n < 3`, No},
		{`args.n == 3.0`, Yes},
		{`args.big > 1`, Yes},
		{`args.list.all(x, x < 3)`, Yes},
		{`args.missing < 4`, Failed},
		{`!has(args.missing)`, Yes},
		{`args.repo`, Failed},
		{`claims.dept == "it" && claims.level >= 3 && claims.ratio < 1.0`, Yes},
		{`claims.nothing == "it"`, Failed},
		{`tool.id == "github:merge#1" && tool.namespace == "github" && tool.name == "merge" && "git" in tool.tags && server == "github"`, Yes},
		{`tool.read_only || tool.idempotent || tool.open_world`, No},
		{`principal == "corp:u1" && client == "web"`, Yes},
		{`method == "tools/call" && source.startsWith("10.")`, Yes},
		{`run.calls == 7 && run.writes < 3`, Yes},
		{`run.writes >= 3`, No},
		{`flow.integrity == "untrusted" && "mail:read" in flow.sources`, Yes},
		{`flow.args_trusted || "hr" in flow.confidentiality`, No},
		{`session.calls < 5 && session.age < duration("2m")`, Yes},
		{`now.getHours() == 13 && now < timestamp("2027-01-01T00:00:00Z")`, Yes},
	} {
		x, err := Compile(tt.text)
		if err != nil {
			t.Errorf("%s: %v", tt.text, err)
			continue
		}
		got, why := x.Eval(sample())
		if got != tt.want || (why != nil) != (got == Failed) {
			t.Errorf("%s: %v (%v), want %v", tt.text, got, why, tt.want)
		}
	}
}

// A rule that denies below a number must match where the number is missing, and one that allows must
// not: so the value is neither yes nor no.
func TestMissingArgument(t *testing.T) {
	x, err := Compile(`args.n < 4`)
	if err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]Truth{`{"n":3}`: Yes, `{"n":4}`: No, `{}`: Failed, ``: Failed, `{"n":"3"}`: Failed, `{"n":null}`: Failed} {
		in := sample()
		in.SetArgs(json.RawMessage(args))
		if got, _ := x.Eval(in); got != want {
			t.Errorf("%s: %v, want %v", args, got, want)
		}
	}
}

// A member that differs only in case from one that an expression looks at is the same to some
// servers, so the value is not known, in whichever way the expression looks.
func TestMembersThatDifferInCase(t *testing.T) {
	for _, tt := range []struct {
		text, args string
		want       Truth
	}{
		{`args.n < 4`, `{"n":3,"N":500}`, Unknown},
		{`args.n >= 100`, `{"N":500,"n":3}`, Unknown},
		{`args["n"] < 4`, `{"n":3,"N":500}`, Unknown},
		{`args.n < 4`, `{"N":500}`, Unknown},
		{`has(args.n)`, `{"N":500}`, Unknown},
		{`!has(args.n) || args.n < 4`, `{"N":500}`, Unknown},
		{`"n" in args`, `{"N":500}`, Unknown},
		{`!("n" in args)`, `{"N":500}`, Unknown},
		{`args.exists(k, k == "n")`, `{"N":500}`, Unknown},
		{`args.all(k, args[k] < 4)`, `{"n":3,"N":2}`, Unknown},
		{`size(args) < 3`, `{"n":3,"N":500}`, Unknown},
		{`args["n" + ""] < 4`, `{"n":3,"N":500}`, Unknown},
		{`args[["n"][0]] < 4`, `{"n":3,"N":500}`, Unknown},
		{`args == {"n": 3}`, `{"n":3,"N":500}`, Unknown},
		{`{"n": 3} == args`, `{"N":3}`, Unknown},
		{`args.a.b < 4`, `{"a":{"b":3,"B":500}}`, Unknown},
		{`args.a.b < 4`, `{"a":{"b":3},"A":{"b":500}}`, Unknown},
		{`args["a"]["b"] < 4`, `{"a":{"b":3,"B":500}}`, Unknown},
		{`args.a["b"] < 4`, `{"a":{"b":3,"B":500}}`, Unknown},
		{`has(args.a.b)`, `{"a":{"B":500}}`, Unknown},
		{`args.a == {"b": 3}`, `{"a":{"b":3,"B":500}}`, Unknown},
		{`args.list[0].n < 4`, `{"list":[{"n":3,"N":500}]}`, Unknown},
		{`args.list.all(x, x.n < 4)`, `{"list":[{"n":1},{"n":3,"N":500}]}`, Unknown},
		{`args.list == [{"n": 3}]`, `{"list":[{"n":3,"N":500}]}`, Unknown},
		{`args.list.map(x, x.n).exists(n, n > 100)`, `{"list":[{"n":3,"N":500}]}`, Unknown},
		{`args.kilo < 4`, `{"kilo":3,"\u212aILO":500}`, Unknown},
		{`args.size < 4`, `{"size":3,"\u017fize":500}`, Unknown},
		{`"sre" in groups || args.n < 4`, `{"n":3,"N":500}`, Yes},
		{`"ops" in groups && args.n < 4`, `{"n":3,"N":500}`, No},
		// Others are as they were.
		{`args.n < 4`, `{"n":3,"M":1,"m":2}`, Yes},
		{`args.n < 4`, `{"n":3,"a":{"N":500}}`, Yes},
		{`args.a.b < 4`, `{"a":{"b":3},"B":500}`, Yes},
		{`args.N < 4`, `{"N":3}`, Yes},
		{`args.n == 3 && args.repo == "acme"`, `{"n":3,"repo":"acme","ACME":1}`, Yes},
		{`args.exists(k, k == "n")`, `{"n":3,"m":1}`, Yes},
		{`size(args) == 2`, `{"n":3,"m":1}`, Yes},
		{`args == {"n": 3}`, `{"n":3}`, Yes},
		{`args.n < 4`, `{"m":3}`, Failed},
		{`type(args) == map`, `{}`, Yes},
	} {
		x, err := Compile(tt.text)
		if err != nil {
			t.Fatal(err)
		}
		in := sample()
		in.SetArgs(json.RawMessage(tt.args))
		for range 2 { // the arguments are decoded once
			if got, why := x.Eval(in); got != tt.want || (why != nil) != (got == Failed || got == Unknown) {
				t.Errorf("%s of %s: %v (%v), want %v", tt.text, tt.args, got, why, tt.want)
			}
		}
		in.Unknown = Now // evaluated in part
		if x.uses |= Now; tt.want != Failed {
			if got, _ := x.Eval(in); got != tt.want {
				t.Errorf("%s of %s, in part: %v, want %v", tt.text, tt.args, got, tt.want)
			}
		}
	}
	x, _ := Compile(`args.n < 4`)
	in := sample()
	in.SetArgs(json.RawMessage(`{"n":3,"N":5}`))
	if got := (&Condition{When: x}).Explain(in); len(got) != 1 || !strings.Contains(got[0].Why, `differs from "n" only in case`) {
		t.Errorf("%+v", got)
	}
}

func TestUnknownParts(t *testing.T) {
	for _, tt := range []struct {
		text    string
		unknown Parts
		args    []string
		want    Truth
	}{
		{`args.n < 4`, Args, nil, Unknown},
		{`"sre" in groups && args.n < 4`, Args, nil, Unknown},
		{`"ops" in groups && args.n < 4`, Args, nil, No},
		{`"sre" in groups || args.n < 4`, Args, nil, Yes},
		{`args.n < 4`, 0, []string{"n"}, Unknown},
		{`args.n < 4`, 0, []string{"repo"}, Yes},
		{`args.exists(k, k == "n")`, 0, []string{"repo"}, Unknown},
		{`"admin" in scopes`, Scopes, nil, Unknown},
		{`tool.destructive`, ToolHints, nil, Unknown},
		{`tool.namespace == "github"`, ToolHints | ToolName, nil, Yes},
		{`tool.name == "merge"`, ToolName, nil, Unknown},
		{`now > timestamp("2020-01-01T00:00:00Z")`, Now, nil, Unknown},
		// An error counts as unknown while a part that the expression looks at is.
		{`claims.nothing == "it" && args.n < 4`, Args, nil, Unknown},
		{`claims.nothing == "it"`, Args, nil, Failed},
	} {
		x, err := Compile(tt.text)
		if err != nil {
			t.Fatal(err)
		}
		in := sample()
		in.Unknown, in.UnknownArgs = tt.unknown, tt.args
		if got, why := x.Eval(in); got != tt.want {
			t.Errorf("%s without %b %v: %v (%v), want %v", tt.text, tt.unknown, tt.args, got, why, tt.want)
		}
	}
	large := sample()
	large.SetArgs(json.RawMessage(`{"n":"` + strings.Repeat("x", maxArgs) + `"}`))
	x, _ := Compile(`size(args.n) > 3`)
	if got, _ := x.Eval(large); got != Unknown {
		t.Errorf("arguments over the bound: %v", got)
	}
}

func TestCompileSaysWhere(t *testing.T) {
	for text, want := range map[string]string{
		`tool.destrutive`:          "undeclared reference to 'tool.destrutive'",
		"true &&\n  nobody == 'x'": "line 2, column 3",
		`1 + 1`:                    "must be true or false",
		`args.n <`:                 "line 1",
		strings.Repeat("a", 5000):  "size",
	} {
		_, err := Compile(text)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40s: %v, want %q in it", text, err, want)
		}
	}
}

func TestCostIsBounded(t *testing.T) {
	list := make([]string, 300)
	for i := range list {
		list[i] = fmt.Sprint(i)
	}
	x, err := Compile(`args.list.all(a, args.list.all(b, a == a && b == b))`)
	if err != nil {
		t.Fatal(err)
	}
	in := sample()
	raw, _ := json.Marshal(map[string]any{"list": list})
	in.SetArgs(raw)
	if got, why := x.Eval(in); got != Failed || !strings.Contains(why.Error(), "cost") {
		t.Errorf("%v, %v", got, why)
	}
	// What cannot cost too much is not counted, unless the caller is larger than was assumed.
	cheap, err := Compile(`"sre" in groups`)
	if err != nil {
		t.Fatal(err)
	}
	if cheap.exact == cheap.tracked || x.exact != x.tracked {
		t.Errorf("counted: %v, %v", cheap.exact == cheap.tracked, x.exact == x.tracked)
	}
	in = sample()
	in.Identity.Groups = slices.Repeat([]string{"a"}, 20_000)
	if got, why := cheap.Eval(in); got != Failed {
		t.Errorf("a caller of 20,000 groups: %v, %v", got, why)
	}
}

func TestConditions(t *testing.T) {
	when := func(text string) *Expression {
		x, err := Compile(text)
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	missing := sample()
	missing.Identity.GroupsMissing = true
	missing.Identity.RolesMissing = []string{"auditor"}
	open := sample()
	open.Unknown = Scopes
	for _, tt := range []struct {
		name string
		c    *Condition
		in   *Input
		want Truth
	}{
		{"none", nil, sample(), Yes},
		{"empty", &Condition{}, sample(), Yes},
		{"one of the groups", &Condition{Groups: []string{"ops", "sre"}}, sample(), Yes},
		{"no group", &Condition{Groups: []string{"ops"}}, sample(), No},
		{"groups that the issuer left out", &Condition{Groups: []string{"sre"}}, missing, Failed},
		{"groups that the issuer left out, in an expression", &Condition{When: when(`"sre" in groups`)}, missing, Failed},
		{"a principal", &Condition{Principals: []string{"ci", "corp:*"}}, sample(), Yes},
		{"another principal", &Condition{Principals: []string{"corp:u?2"}}, sample(), No},
		{"a role", &Condition{Roles: []string{"operator"}}, sample(), Yes},
		{"a role that a group could give", &Condition{Roles: []string{"auditor"}}, missing, Failed},
		{"that role or one that the caller has", &Condition{Roles: []string{"auditor", "operator"}}, missing, Yes},
		{"a role that no group gives", &Condition{Roles: []string{"other"}}, missing, No},
		{"the lack of a role that a group could give, in an expression", &Condition{When: when(`!("auditor" in roles)`)}, missing, Failed},
		{"all scopes", &Condition{Scopes: []string{"repo:read"}}, sample(), Yes},
		{"a scope is missing", &Condition{Scopes: []string{"repo:read", "repo:write"}}, sample(), No},
		{"a scope could be had", &Condition{Scopes: []string{"repo:write"}}, open, Unknown},
		{"all parts", &Condition{Groups: []string{"sre"}, Scopes: []string{"repo:read"}, When: when(`args.n < 4`)}, sample(), Yes},
		{"no before failed", &Condition{Groups: []string{"ops"}, When: when(`args.m < 4`)}, sample(), No},
		{"failed and unknown", &Condition{Groups: []string{"sre"}, Scopes: []string{"repo:write"}}, &Input{Identity: missing.Identity, Unknown: Scopes}, NotYes},
	} {
		if got := tt.c.Holds(tt.in); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
		low := Yes
		for _, part := range tt.c.Explain(tt.in) {
			low = low.and(part.Value)
		}
		if low != tt.want {
			t.Errorf("%s: the parts say %v, the condition %v", tt.name, low, tt.want)
		}
	}
}

func FuzzExpression(f *testing.F) {
	for _, seed := range []string{`args.n < 4`, `"sre" in groups`, `args.list.all(x, x > 0)`, `claims.a.b.c == [1,2]`, `args.repo.matches("^a+$")`, `now - now == duration("0s")`, `1/0 == 1`} {
		f.Add(seed, `{"n":1,"list":[1,{"a":null}],"repo":"aaa"}`)
	}
	f.Fuzz(func(t *testing.T, text, args string) {
		x, err := Compile(text)
		if err != nil {
			return
		}
		in := sample()
		in.SetArgs(json.RawMessage(args))
		start := time.Now()
		exact, why := x.Eval(in)
		if took := time.Since(start); took > 5*time.Second {
			t.Errorf("%q took %s", text, took)
		}
		if (exact == Failed || exact == Unknown) != (why != nil) {
			t.Errorf("%q: %v, %v", text, exact, why)
		}
		// What is certain without the arguments is so with any.
		in.Unknown = OfCall
		without, _ := x.Eval(in)
		if without == Yes && exact == No || without == No && exact == Yes {
			t.Errorf("%q: %v with %s, %v without", text, exact, args, without)
		}
	})
}

// Labels that are off fail an expression that looks at them, and before a call they are not known.
func TestLabelsInExpressions(t *testing.T) {
	x, err := Compile(`flow.integrity == "trusted" || flow.args_trusted`)
	if err != nil {
		t.Fatal(err)
	}
	in := sample()
	if got, _ := x.Eval(in); got != No {
		t.Errorf("with labels: %v", got)
	}
	in.Unknown = OfCall
	if got, _ := x.Eval(in); got != Unknown {
		t.Errorf("before a call: %v", got)
	}
	in.Unknown, in.Flow = 0, nil
	if got, why := x.Eval(in); got != Failed || why == nil {
		t.Errorf("without labels: %v, %v", got, why)
	}
}
