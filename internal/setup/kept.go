package setup

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/weir-mcp/weir/internal/setup/journal"
)

// errSecretsGone is the error for an undo of an undo that took secrets out of the store.
var errSecretsGone = errors.New("its undo brings back servers without their secrets")

// names reports whether weir.yaml refers to a secret of the store.
func (m *Machine) names(secret string) (bool, error) {
	doc, _, err := readFile(m.Config)
	return strings.Contains(string(doc), "${secret:"+secret+"}"), err
}

// forget removes a secret of the store, unless weir.yaml still refers to it.
func (m *Machine) forget(secret string) (removed bool, err error) {
	used, err := m.names(secret)
	if err != nil || used {
		return false, err
	}
	return true, m.Secrets.Remove(secret)
}

// keeps reports whether weir put a secret into the store for an operation that stands.
func (m *Machine) keeps(secret string) (bool, error) {
	records, err := m.Journal.List()
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(records, func(r journal.Record) bool {
		return r.UndoneBy == 0 && slices.Contains(r.Steps, journal.Step{Do: RemoveSecret, Name: secret})
	}), nil
}

// restorable checks that an operation is no undo that took secrets out of the store. One whose secrets
// are there again may be undone.
func (m *Machine) restorable(n int) error {
	if n == 0 || m.Secrets == nil {
		return nil
	}
	records, err := m.Journal.List()
	if err != nil {
		return err
	}
	at := slices.IndexFunc(records, func(r journal.Record) bool { return r.N == n })
	if at < 0 || records[at].Kind != "undo" || records[at].UndoneBy != 0 {
		return nil
	}
	of := slices.IndexFunc(records, func(r journal.Record) bool { return r.N == records[at].Undoes })
	if of < 0 {
		return nil
	}
	var gone []string
	for _, step := range records[of].Steps {
		if step.Do != RemoveSecret {
			continue
		}
		_, ok, err := m.Secrets.Lookup(step.Name)
		if err != nil {
			return err
		}
		if !ok {
			gone = append(gone, step.Name)
		}
	}
	if len(gone) == 0 {
		return nil
	}
	return fmt.Errorf("operation %d took %s out of the store: %w. Store it first: weir secret set %s", n, strings.Join(gone, ", "), errSecretsGone, gone[0])
}
