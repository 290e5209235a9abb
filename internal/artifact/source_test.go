package artifact_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-mcp/weir/internal/artifact"
	"github.com/weir-mcp/weir/s2sp/table"
)

// source gives its rows out once.
type source struct {
	rows   string
	opened int
	asked  table.Selection
	err    error
	breaks bool // the rows break off
	closed int
}

func (s *source) Open(_ context.Context, sel table.Selection, _ bool) (artifact.Rows, error) {
	if s.err != nil {
		return nil, s.err
	}
	if s.opened++; s.opened > 1 {
		return nil, artifact.ErrToken
	}
	s.asked = sel
	all, err := table.Index([]byte(s.rows), table.Options{KeepRowID: true})
	if err != nil {
		return nil, err
	}
	return &sourceRows{artifact.RowsOf(all), s}, nil
}

type sourceRows struct {
	artifact.Rows
	s *source
}

var errBroken = errors.New("broke off")

func (r *sourceRows) Next() ([]byte, error) {
	row, err := r.Rows.Next()
	if errors.Is(err, io.EOF) && r.s.breaks {
		err = errBroken
	}
	return row, err
}

func (r *sourceRows) Close() error { r.s.closed++; return r.Rows.Close() }

const numbered = `[{"_row_id":4,"a":1},{"_row_id":7,"a":2}]`

func testSources(t *testing.T, open func(t *testing.T) *artifact.Local) {
	claim := func(t *testing.T, s *artifact.Local, tok artifact.Token) *artifact.Claim {
		t.Helper()
		c, err := s.Claim(t.Context(), tok.Value)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	lazy := func(t *testing.T, s *artifact.Local, from artifact.Source) artifact.Token {
		t.Helper()
		tok, err := s.DepositSource(t.Context(), "ann", "weather:list", from, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		return tok
	}
	gone := func(t *testing.T, s *artifact.Local, tok artifact.Token) {
		t.Helper()
		if _, err := s.Claim(t.Context(), tok.Value); !errors.Is(err, artifact.ErrToken) {
			t.Errorf("the token is good: %v", err)
		}
		if got := s.Totals(); got.Tokens != 0 || got.Count != 0 || got.MemoryBytes != 0 || got.DiskBytes != 0 {
			t.Errorf("left %+v", got)
		}
	}

	t.Run("read on and spent", func(t *testing.T) {
		s, from := open(t), &source{rows: numbered}
		tok := lazy(t, s, from)
		if got := s.Totals(); got != (artifact.Totals{Count: 1, Tokens: 1}) {
			t.Errorf("takes %+v", got)
		}
		c := claim(t, s, tok)
		if _, err := c.Table(table.DetectOptions{}); !c.Elsewhere() || err == nil {
			t.Errorf("the rows are here: %v", err)
		}
		if _, err := s.Claim(t.Context(), tok.Value); !errors.Is(err, artifact.ErrToken) {
			t.Errorf("claimed twice: %v", err)
		}
		rows, err := c.Open(t.Context(), table.Selection{RowIDs: []int{4}}, false)
		if err != nil || len(from.asked.RowIDs) != 1 {
			t.Fatalf("asked for %v: %v", from.asked, err)
		}
		row, err := rows.Next()
		if err != nil || string(row) != `{"_row_id":4,"a":1}` || strings.Join(rows.Columns(), " ") != "_row_id a" {
			t.Errorf("%s, %v", row, err)
		}
		c.Spend()
		if _, err := rows.Next(); err != nil {
			t.Errorf("after Spend: %v", err)
		}
		rows.Close()
		c.Close()
		gone(t, s, tok)
	})

	t.Run("kept for the next reader", func(t *testing.T) {
		s, from := open(t), &source{rows: numbered}
		tok := lazy(t, s, from)
		c := claim(t, s, tok)
		sel := table.Selection{RowIDs: []int{4, 7}, Columns: []string{"a"}}
		rows, err := c.Open(t.Context(), sel, false)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Keep(t.Context(), rows, sel); err != nil || from.closed != 1 {
			t.Fatalf("closed %d times, %v", from.closed, err)
		}
		c.Close()
		c = claim(t, s, tok)
		limit, limited := c.Limited()
		if c.Elsewhere() || !limited || len(limit.RowIDs) != 2 || from.opened != 1 {
			t.Fatalf("elsewhere %v, limited to %v", c.Elsewhere(), limit)
		}
		tab, err := c.Table(table.DetectOptions{})
		if err != nil || string(table.Selection{RowIDs: []int{7}}.Select(tab).AppendJSON(nil)) != `[{"_row_id":7,"a":2}]` {
			t.Errorf("%v", err)
		}
		if got := s.Totals(); got.MemoryBytes+got.DiskBytes == 0 || s.Usage("ann").Bytes == 0 {
			t.Errorf("what is kept takes nothing: %+v", got)
		}
		c.Spend()
		c.Close()
		gone(t, s, tok)
		if s.Usage("ann") != (artifact.Usage{}) {
			t.Errorf("usage %+v", s.Usage("ann"))
		}
	})

	t.Run("not there now", func(t *testing.T) {
		s, from := open(t), &source{rows: numbered, err: errors.New("down")}
		tok := lazy(t, s, from)
		c := claim(t, s, tok)
		if _, err := c.Open(t.Context(), table.Selection{}, false); err == nil {
			t.Error("opened")
		}
		c.Close()
		from.err = nil
		c = claim(t, s, tok)
		if _, err := c.Open(t.Context(), table.Selection{}, false); err != nil {
			t.Error(err)
		}
		c.Spend()
		c.Close()
		gone(t, s, tok)
	})

	t.Run("not there any more", func(t *testing.T) {
		s, from := open(t), &source{opened: 1}
		tok := lazy(t, s, from)
		c := claim(t, s, tok)
		if _, err := c.Open(t.Context(), table.Selection{}, false); !errors.Is(err, artifact.ErrToken) {
			t.Error(err)
		}
		c.Close()
		gone(t, s, tok)
	})

	t.Run("what cannot be kept is lost", func(t *testing.T) {
		for name, from := range map[string]*source{
			"it breaks off":  {rows: numbered, breaks: true},
			"it is too much": {rows: `[{"_row_id":0,"a":"` + strings.Repeat("x", 9000) + `"}]`},
		} {
			s := open(t)
			tok := lazy(t, s, from)
			c := claim(t, s, tok)
			rows, err := c.Open(t.Context(), table.Selection{}, false)
			if err != nil {
				t.Fatal(err)
			}
			if err := c.Keep(t.Context(), rows, table.Selection{}); err == nil || !strings.Contains(err.Error(), "weather:list") || from.closed != 1 {
				t.Errorf("%s: %v", name, err)
			}
			c.Close()
			gone(t, s, tok)
		}
	})

	t.Run("it expires meanwhile", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s, from := open(t), &source{rows: numbered}
			defer s.Close()
			tok := lazy(t, s, from)
			c := claim(t, s, tok)
			rows, err := c.Open(t.Context(), table.Selection{}, false)
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(2 * time.Minute)
			if err := c.Keep(t.Context(), rows, table.Selection{}); !errors.Is(err, artifact.ErrToken) {
				t.Errorf("%v", err)
			}
			c.Close()
			gone(t, s, tok)
		})
	})
}

func TestSources(t *testing.T) {
	t.Run("memory", func(t *testing.T) {
		testSources(t, func(t *testing.T) *artifact.Local {
			s := artifact.NewMemory(artifact.Options{MaxBytes: 8000})
			t.Cleanup(func() { s.Close() })
			return s
		})
	})
	t.Run("files", func(t *testing.T) {
		testSources(t, func(t *testing.T) *artifact.Local {
			s := openLocal(t, artifact.Options{Dir: t.TempDir(), MemoryBytes: 1, DiskBytes: 8000})
			t.Cleanup(func() { s.Close() })
			return s
		})
	})
}
