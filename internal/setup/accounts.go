package setup

import (
	"fmt"
	"slices"

	"github.com/weir-mcp/weir/internal/access/password"
	"github.com/weir-mcp/weir/internal/json/splice"
	"github.com/weir-mcp/weir/internal/setup/journal"
)

// Where accounts are in weir.yaml, and what they need there.
var (
	accountsPath  = splice.Path{"auth", "accounts"}
	serverPath    = splice.Path{"auth", "server"}
	publicURLPath = splice.Path{"public_url"}
)

// Account is a person of auth.accounts.
type Account struct {
	Name   string
	Groups []string
}

// Accounts returns the people of auth.accounts in weir.yaml.
func (m *Machine) Accounts() ([]Account, error) {
	_, list, err := m.accounts()
	var out []Account
	for _, one := range list {
		o, _ := one.(splice.Object)
		a := Account{Name: nameIn(one)}
		groups, _ := o.Get("groups").([]any)
		for _, g := range groups {
			if text, ok := g.(string); ok {
				a.Groups = append(a.Groups, text)
			}
		}
		out = append(out, a)
	}
	return out, err
}

// accounts reads the list of accounts.
func (m *Machine) accounts() (doc []byte, list []any, err error) {
	if doc, _, err = readFile(m.Config); err != nil {
		return nil, nil, err
	}
	v, _, err := splice.Lookup(doc, m.format(), accountsPath)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", m.Config, err)
	}
	list, _ = v.([]any)
	return doc, list, nil
}

func nameIn(account any) string {
	o, _ := account.(splice.Object)
	name, _ := o.Get("name").(string)
	return name
}

// SetAccount plans to add an account with a password, or to give one another password. No groups keep those of before. Where the
// file has no auth.server, the plan lets people with accounts sign in; listen is the address for public_url then.
func (m *Machine) SetAccount(name, secret string, groups []string, listen string) (*Plan, error) {
	doc, list, err := m.accounts()
	if err != nil {
		return nil, err
	}
	entry := splice.Object{{Key: "name", Value: name}, {Key: "password", Value: password.Hash(secret)}}
	at := slices.IndexFunc(list, func(one any) bool { return nameIn(one) == name })
	if len(groups) > 0 {
		all := make([]any, len(groups))
		for i, g := range groups {
			all[i] = g
		}
		entry = append(entry, splice.Member{Key: "groups", Value: all})
	} else if at >= 0 {
		if before := list[at].(splice.Object).Get("groups"); before != nil {
			entry = append(entry, splice.Member{Key: "groups", Value: before})
		}
	}
	list = slices.Clone(list)
	if at >= 0 {
		list[at] = entry
	} else {
		list = append(list, entry)
	}
	edits := []journal.Edit{{Path: accountsPath, Value: list}}
	for _, need := range []journal.Edit{
		{Path: serverPath, Value: splice.Object{{Key: "people", Value: "accounts"}}}, {Path: publicURLPath, Value: "http://" + listen},
	} {
		if _, there, err := splice.Lookup(doc, m.format(), need.Path); err != nil {
			return nil, fmt.Errorf("%s: %w", m.Config, err)
		} else if !there {
			edits = append(edits, need)
		}
	}
	return m.accountPlan(name, File{Adds: []string{"account:" + name}, edits: edits}), nil
}

// RemoveAccount plans to remove an account.
func (m *Machine) RemoveAccount(name string) (*Plan, error) {
	doc, list, err := m.accounts()
	if err != nil {
		return nil, err
	}
	left := slices.DeleteFunc(slices.Clone(list), func(one any) bool { return nameIn(one) == name })
	if len(left) == len(list) {
		return nil, fmt.Errorf("%s has no account %q: %w", m.Config, name, ErrNoAccount)
	}
	edit := journal.Edit{Path: accountsPath, Value: left}
	if len(left) == 0 {
		people, _, err := splice.Lookup(doc, m.format(), append(slices.Clone(serverPath), "people"))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", m.Config, err)
		}
		if people == "accounts" { // without auth.server, a gateway on this machine would know no callers at all
			return nil, fmt.Errorf("%s is %w: auth.server with people: accounts needs one. Add another one first, or remove auth.server", name, ErrLastAccount)
		}
		edit = journal.Edit{Path: accountsPath, Remove: true}
	}
	return m.accountPlan(name, File{Takes: []string{"account:" + name}, edits: []journal.Edit{edit}}), nil
}

func (m *Machine) accountPlan(name string, f File) *Plan {
	f.File, f.format = m.Config, m.format()
	return &Plan{Kind: "account", Summary: name, Files: []File{f}, m: m}
}
