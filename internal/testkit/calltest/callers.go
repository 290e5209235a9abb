package calltest

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/weir-mcp/weir/internal/access/authz"
	"github.com/weir-mcp/weir/internal/identity"
	"github.com/weir-mcp/weir/mcp"
)

// Callers: two of one issuer with different groups, and one without an issuer.
var (
	SRE = &identity.Identity{Principal: "corp:u1", Issuer: "corp", Groups: []string{"sre"}, Scopes: []string{"mcp", "repo:read"}, Needed: []string{"mcp"}}
	Dev = &identity.Identity{Principal: "corp:u2", Issuer: "corp", Groups: []string{"dev"}}
	CI  = &identity.Identity{Principal: "ci"}
)

// Secret is a secret of a configuration, which no answer may have.
const Secret = "conf1gured-s3cret"

// When returns the condition of an expression.
func When(t testing.TB, text string) *authz.Condition {
	t.Helper()
	x, err := authz.Compile(text)
	if err != nil {
		t.Fatal(err)
	}
	return &authz.Condition{When: x}
}

// Person is the Peer of a client that answers elicitations.
type Person struct {
	Answer func(ctx context.Context, params json.RawMessage) (json.RawMessage, error)
	Asked  []string
}

func (p *Person) Call(ctx context.Context, method string, params json.RawMessage, _ mcp.Handler) (json.RawMessage, error) {
	p.Asked = append(p.Asked, method+" "+string(params))
	return p.Answer(ctx, params)
}

func (p *Person) Notify(context.Context, string, json.RawMessage) error { return nil }
