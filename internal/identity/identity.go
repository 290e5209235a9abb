package identity

import (
	"context"
	"slices"
	"strings"
	"time"
)

// Local is the principal of all callers where no authentication is configured.
const Local = "local"

// Identity is who made a request. It must not change once it is in a context; many requests share
// one.
type Identity struct {
	// Principal owns everything that the caller makes. It is never empty.
	Principal string
	// Issuer is the configured name of the issuer that vouches for the caller; "" for static
	// tokens, certificates and the local principal.
	Issuer string
	// Client is the OAuth client that the caller used, or "".
	Client string
	// Groups, Roles and Scopes belong to the caller; each is sorted and without duplicates.
	Groups, Roles, Scopes []string
	// Needed are the scopes that every token of the issuer must have here.
	Needed []string
	// Claims are the issuer's statements as decoded JSON, with numbers as json.Number; nil without
	// an issuer.
	Claims map[string]any
	// GroupsMissing means that the issuer has more groups of the caller than it wrote down. A rule
	// that allows by group does not match then.
	GroupsMissing bool
	// RolesMissing are the roles that groups give and that the caller might have, because groups are
	// missing; sorted. A rule by such a role denies and asks, and never allows.
	RolesMissing []string
	// Expires is when the credential ends; zero if it does not.
	Expires time.Time
	// Revocable means that the issuer may end the credential before, and is asked again meanwhile.
	Revocable bool
	// Bearer is the token that the caller showed. It goes to an upstream only where the operator
	// said so and the token names that upstream; it is never written anywhere.
	Bearer Secret
}

// WithoutCredential returns the identity without its Bearer, to keep for longer than a request.
func (i *Identity) WithoutCredential() *Identity {
	if i == nil || i.Bearer == "" {
		return i
	}
	out := *i
	out.Bearer = ""
	return &out
}

// Grant names the grant of the issuer: the client and its scopes. Two tokens of a principal with one
// grant differ only in their times. A token must not stand for one of another grant: the client of the
// latter may be trusted less.
func (i *Identity) Grant() string { return i.Client + "\x00" + strings.Join(i.Scopes, " ") }

// Secret is a text that prints as "[secret]".
type Secret string

// String implements fmt.Stringer.
func (Secret) String() string { return "[secret]" }

// GoString implements fmt.GoStringer.
func (Secret) GoString() string { return "[secret]" }

// MarshalText implements encoding.TextMarshaler, for logs and JSON.
func (Secret) MarshalText() ([]byte, error) { return []byte("[secret]"), nil }

// local is the identity of requests without one.
var local = &Identity{Principal: Local}

// InGroup reports whether the caller is in a group.
func (i *Identity) InGroup(group string) bool { return has(i.Groups, group) }

// HasRole reports whether the caller has a role.
func (i *Identity) HasRole(role string) bool { return has(i.Roles, role) }

// HasScope reports whether the caller's credential has a scope.
func (i *Identity) HasScope(scope string) bool { return has(i.Scopes, scope) }

func has(sorted []string, s string) bool {
	_, ok := slices.BinarySearch(sorted, s)
	return ok
}

type key struct{}

// With returns a context of a request that id made.
func With(ctx context.Context, id *Identity) context.Context {
	return context.WithValue(ctx, key{}, id)
}

// From returns who made a request: the identity that With stored, or the local one. It is never
// nil.
func From(ctx context.Context) *Identity {
	if id, ok := ctx.Value(key{}).(*Identity); ok && id != nil {
		return id
	}
	return local
}
