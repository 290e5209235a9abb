package authz

import (
	"crypto/sha256"
	"encoding/binary"

	"github.com/weir-mcp/weir/internal/identity"
)

// Classes puts callers into classes: conditions that do not look at parts of a call have the same
// value for all callers of a class. It looks only at values that some condition looks at, so that
// callers share a class where they can.
type Classes struct {
	conditions []*Condition
	uses       Parts // of the expressions
	claims     usedClaims
}

// ClassesOf returns the classes that conditions tell apart. Nil conditions are ignored.
func ClassesOf(conditions []*Condition) *Classes {
	c := &Classes{}
	for _, one := range conditions {
		if one == nil {
			continue
		}
		c.conditions = append(c.conditions, one)
		if one.When != nil {
			c.uses |= one.When.uses
			c.claims = c.claims.and(one.When.claims)
		}
	}
	return c
}

// Class is a class of callers.
type Class [sha256.Size]byte

// Of returns the class of a caller at a profile, "" for none. Scopes that a caller with an issuer
// lacks count as not known, because the caller could get them. Of the claims, those count that an
// expression selects by name. If an expression reads claims in another way, all count. Of those that
// differ from token to token, such as exp and jti, only the presence counts then.
func (c *Classes) Of(id *identity.Identity, profile string) Class {
	in := Input{Identity: id, Profile: profile}
	if id.Issuer != "" {
		in.Unknown = Scopes
	}
	w := writer{make([]byte, 0, 256)}
	for _, one := range c.conditions {
		for _, part := range parts {
			w.out = append(w.out, byte(part.of(one, &in)))
		}
	}
	if c.uses&Principal != 0 {
		w.texts(id.Principal)
	}
	if c.uses&Groups != 0 {
		w.texts(id.Groups...)
		w.flag(id.GroupsMissing)
	}
	if c.uses&Roles != 0 {
		w.texts(id.Roles...)
		w.flag(len(id.RolesMissing) > 0)
	}
	if c.uses&Scopes != 0 {
		w.flag(id.Issuer != "")
		if id.Issuer == "" {
			w.texts(id.Scopes...)
		}
	}
	if c.uses&Profile != 0 {
		w.texts(profile)
	}
	if c.uses&Client != 0 {
		w.texts(id.Client)
	}
	if c.uses&Claims != 0 {
		c.claims.write(&w, id.Claims)
	}
	return sha256.Sum256(w.out)
}

// writer writes texts so that no two lists of texts have the same bytes.
type writer struct{ out []byte }

func (w *writer) texts(list ...string) {
	w.out = binary.AppendUvarint(w.out, uint64(len(list)))
	for _, s := range list {
		w.out = binary.AppendUvarint(w.out, uint64(len(s)))
		w.out = append(w.out, s...)
	}
}

func (w *writer) flag(set bool) {
	if set {
		w.out = append(w.out, 1)
	} else {
		w.out = append(w.out, 0)
	}
}
