package part

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/config"
)

// TestPrepareAllOrNone: a reload that the last part refuses changes no part, and one that none refuses
// changes all, in the order of the table.
func TestPrepareAllOrNone(t *testing.T) {
	t.Parallel()
	var log []string
	of := func(name string, refuse error) Part {
		return Part{Name: name, Prepare: func(Reload) (func(), error) {
			return func() { log = append(log, name) }, refuse
		}}
	}
	refused := errors.New("no such key")
	apply, err := Table{of("first", nil), {Name: "idle"}, of("last", refused)}.Prepare(Reload{})
	if !errors.Is(err, refused) || !strings.HasPrefix(err.Error(), "last: ") || apply != nil || log != nil {
		t.Errorf("refused: %v, %q", err, log)
	}
	apply, err = Table{of("first", nil), {Name: "idle"}, of("last", nil)}.Prepare(Reload{})
	if err != nil || log != nil {
		t.Fatalf("prepared: %v, %q", err, log)
	}
	if apply(); !slices.Equal(log, []string{"first", "last"}) {
		t.Errorf("applied: %q", log)
	}
}

// TestCloseReverses: parts end in the reverse order, each with the context of Close.
func TestCloseReverses(t *testing.T) {
	t.Parallel()
	var log []string
	var table Table
	for _, name := range []string{"first", "second", "last"} {
		table = append(table, Part{Name: name, Close: func(ctx context.Context) {
			if ctx == t.Context() {
				log = append(log, name)
			}
		}})
	}
	table = append(table, Part{Name: "idle"})
	if table.Close(t.Context()); !slices.Equal(log, []string{"last", "second", "first"}) {
		t.Errorf("closed: %q", log)
	}
}

// TestDivide: what applies and what waits, for keys of every kind.
func TestDivide(t *testing.T) {
	t.Parallel()
	table := Table{
		{Keys: slices.Concat(AtOnce("mode"), AtRestart("listen"))},
		{Keys: []Key{{Name: "log", Late: "log.format", Split: func(c *config.Config) (any, any) { return c.Log.Level, c.Log.Format }}}},
	}
	now, next := &config.Config{}, &config.Config{}
	next.Log.Format = config.LogJSON
	r := Reload{now, next, config.Change{Other: []string{"listen", "log", "mode", "unknown"}}}
	if applied, waits := table.Divide(r); !slices.Equal(applied, []string{"mode", "unknown"}) || !slices.Equal(waits, []string{"listen", "log.format"}) {
		t.Errorf("%q, %q", applied, waits)
	}
}
