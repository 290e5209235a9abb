package identity_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/identity"
)

func TestFrom(t *testing.T) {
	if got := identity.From(t.Context()).Principal; got != identity.Local {
		t.Errorf("without an identity the principal is %q", got)
	}
	if got := identity.From(identity.With(context.Background(), nil)).Principal; got != identity.Local {
		t.Errorf("with a nil identity the principal is %q", got)
	}
	who := &identity.Identity{Principal: "corp:1", Groups: []string{"dev", "sre"}, Scopes: []string{"a:read"}, Roles: []string{"operator"}}
	got := identity.From(identity.With(t.Context(), who))
	if got != who {
		t.Fatalf("got %v", got)
	}
	if !got.InGroup("sre") || got.InGroup("sr") || !got.HasScope("a:read") || got.HasScope("") || !got.HasRole("operator") || got.HasRole("auditor") {
		t.Errorf("membership is wrong for %+v", got)
	}
}

func TestSecretNeverPrints(t *testing.T) {
	who := &identity.Identity{Principal: "p", Bearer: "hunter2"}
	encoded, err := json.Marshal(who)
	if err != nil {
		t.Fatal(err)
	}
	for _, form := range []string{fmt.Sprintf("%v %+v %#v %s %q", who, who, who, who.Bearer, who.Bearer), string(encoded)} {
		if strings.Contains(form, "hunter2") {
			t.Errorf("the bearer is printed: %s", form)
		}
	}
}
