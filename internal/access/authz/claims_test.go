package authz

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/weir-mcp/weir/internal/identity"
)

func TestClaimsInExpressions(t *testing.T) {
	for text, want := range map[string]string{
		`"sre" in groups`:                                          "[] false",
		`.claims.dept == "it"`:                                     "[dept] false",
		`claims.dept == "it"`:                                      "[dept] false",
		`claims["dept"] == "it" || claims.level > 3`:               "[dept level] false",
		`has(claims.dept) && claims.dept == claims.team`:           "[dept team] false",
		`claims.realm_access.roles.exists(r, r == "x")`:            "[realm_access] false",
		`claims.exists(k, k == "dept")`:                            "[] true",
		`"dept" in claims && claims.exp > 3`:                       "[dept exp] false",
		`"auth_time" in claims`:                                    "[auth_time] false",
		`principal in claims`:                                      "[] true",
		`claims[principal] == "it"`:                                "[] true",
		`[claims].exists(c, c.dept == "it")`:                       "[] true",
		`args.claims == "x" && tool.name == "claims"`:              "[] false",
		`{"a": claims.dept} == {"a": "it"}`:                        "[dept] false",
		`(claims.dept == "it" ? claims.a : claims["b"]) == "c"`:    "[a b dept] false",
		`groups.exists(claims, claims == "sre") && claims.x == ""`: "[x] true", // a variable of the same name: more than is needed
	} {
		x, err := Compile(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got := fmt.Sprint(x.claims.names, x.claims.others); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

// TestClassesOfClaims: callers whose tokens differ in claims that no expression selects share a class.
func TestClassesOfClaims(t *testing.T) {
	of := func(texts ...string) *Classes {
		var all []*Condition
		for _, text := range texts {
			x, err := Compile(text)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, &Condition{When: x})
		}
		return ClassesOf(all)
	}
	caller := func(claims string) *identity.Identity {
		id := &identity.Identity{Principal: "corp:u1", Issuer: "corp"}
		if err := json.Unmarshal([]byte(claims), &id.Claims); err != nil {
			t.Fatal(err)
		}
		return id
	}
	for _, tt := range []struct {
		when   []string
		a, b   string
		shared bool
	}{
		{[]string{`claims.dept == "it"`}, `{"dept":"it","jti":"1","exp":1,"email":"a"}`, `{"dept":"it","jti":"2","exp":2,"email":"b"}`, true},
		{[]string{`claims.dept == "it"`}, `{"dept":"it"}`, `{"dept":"hr"}`, false},
		{[]string{`claims.dept == "it"`}, `{"dept":null}`, `{}`, false},
		{[]string{`claims.dept == "it"`, `claims["team"] == "x"`}, `{"dept":"it","team":"x"}`, `{"dept":"it","team":"y"}`, false},
		{[]string{`claims.a.b == "it"`}, `{"a":{"b":"it","c":1}}`, `{"a":{"b":"it","c":1},"d":2}`, true},
		{[]string{`claims.a.b == "it"`}, `{"a":{"b":"it"}}`, `{"a":{"b":"hr"}}`, false},
		{[]string{`claims.exists(k, k == "dept")`}, `{"dept":"it","jti":"1","iat":1,"nbf":1,"exp":1}`, `{"dept":"it","jti":"2","iat":2,"nbf":2,"exp":2}`, true},
		{[]string{`claims.exists(k, k == "dept")`}, `{"auth_time":1}`, `{"auth_time":2}`, false},
		{[]string{`claims.exists(k, k == "jti")`}, `{"jti":"1"}`, `{}`, false},
		{[]string{`"auth_time" in claims`}, `{"auth_time":1,"sub":"a"}`, `{"sub":"a"}`, false},
		{[]string{`"exp" in claims`}, `{"exp":1}`, `{}`, false},
		{[]string{`"dept" in claims`}, `{"dept":"it","email":"a"}`, `{"dept":"it","email":"b"}`, true},
		{[]string{`claims.exists(k, k == "dept")`}, `{"dept":"it"}`, `{"team":"it"}`, false},
		{[]string{`"dept" in claims && claims.exp > 1`}, `{"exp":1}`, `{"exp":2}`, false},
		{[]string{`claims.a == claims.b`}, `{"a":"x","b":"y"}`, `{"a":"y","b":"x"}`, false},
	} {
		c := of(tt.when...)
		if shared := c.Of(caller(tt.a), "") == c.Of(caller(tt.b), ""); shared != tt.shared {
			t.Errorf("%q: %s and %s: shared %v", tt.when, tt.a, tt.b, shared)
		}
	}
}
