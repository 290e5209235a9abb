package authserver

import (
	"crypto/rand"
	"errors"
	"sync"
	"time"

	"github.com/weir-mcp/weir/internal/access/password"
)

// Prefixes of principals that no provider vouches for.
const (
	// AccountIssuer is the prefix of people with an account of the configuration, and ClientIssuer the prefix of
	// clients that call without a person.
	AccountIssuer = "account"
	ClientIssuer  = "client"
)

// An Account is a person of the configuration.
type Account struct {
	Name     string
	Password string // a hash of package password
	Groups   []string
}

// person returns the person of an account.
func (a *Account) person() *Person {
	return &Person{Principal: AccountIssuer + ":" + a.Name, Issuer: AccountIssuer, Subject: a.Name, Groups: a.Groups}
}

const maxPassword = 1024

// noPassword is the hash of no password. It is compared for names that do not exist, so that the time of an answer does
// not tell which names do.
var noPassword = sync.OnceValue(func() string { return password.Hash(rand.Text()) })

var errPassword = errors.New("the name or the password is wrong")

// password finds the account of a name and a password. wait says how long the next attempt has to wait.
func (x *exchange) password(name, secret string) (a *Account, wait time.Duration, err error) {
	keys := []string{"name " + name, "source " + sourceOf(x.r)}
	for _, key := range keys {
		if wait = max(wait, x.tries.wait(key)); wait > 0 {
			return nil, wait, errPassword
		}
	}
	if len(name) > 64 || len(secret) > maxPassword {
		return nil, 0, errPassword
	}
	hash := noPassword()
	if a = x.p.account(name); a != nil {
		hash = a.Password
	}
	size, err := password.Memory(hash)
	if err != nil {
		return nil, 0, err // the configuration was checked
	}
	select {
	case x.tries.turn <- struct{}{}: // one at a time: each takes a processor and much memory
		defer func() { <-x.tries.turn }()
	case <-x.r.Context().Done():
		return nil, 0, x.r.Context().Err()
	}
	if x.o.Reserve != nil {
		release, err := x.o.Reserve(size)
		if err != nil {
			return nil, 5 * time.Second, err
		}
		defer release()
	}
	if !password.Fits(hash, secret) || a == nil {
		x.tries.failed("name "+name, 5)
		x.tries.failed("source "+sourceOf(x.r), 30)
		return nil, 0, errPassword
	}
	x.tries.reset("name " + name)
	return a, 0, nil
}
