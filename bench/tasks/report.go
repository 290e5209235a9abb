package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
)

// table is what the tasks cost in each way.
type table struct {
	older          bool // there is a column for an earlier weir
	servers, tools int
	rows           []row
}

type row struct {
	task  *task
	costs [4]cost // by way
}

// column plays all tasks in one way, on servers that were just started.
func (t *table) column(ctx context.Context, s *stage, way int, program string) error {
	if err := s.prepare(ctx); err != nil {
		return err
	}
	open := func() (*connection, error) { return s.gateway(ctx, program) }
	if way == native {
		open = func() (*connection, error) { return s.native(ctx) }
	}
	c, err := open()
	if err != nil {
		return err
	}
	defer c.close()
	var failed error
	for i := range t.rows {
		r := &t.rows[i]
		talk, end, err := c.talk(ctx)
		if err == nil {
			err = talk.play(ctx, r.task.ways[ways[way].section])
			end()
			r.costs[way] = talk.spent
		}
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("task %s: %w", r.task.name, err))
		}
	}
	return failed
}

// total is the sum of all tasks in one way.
func (t *table) total(way int) (c cost) {
	for _, r := range t.rows {
		c.add(r.costs[way])
	}
	return c
}

// print writes the table as Markdown.
func (t *table) print(out io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%d tasks, %d servers, %d tools. Turns and tokens (cl100k_base) of each.\n\n", len(t.rows), t.servers, t.tools)
	var shown []int
	b.WriteString("| task |")
	for w, way := range ways {
		if w != before || t.older {
			shown = append(shown, w)
			fmt.Fprintf(&b, " %s | |", way.name)
		}
	}
	b.WriteString("\n| --- |" + strings.Repeat(" --: | --: |", len(shown)) + "\n")
	line := func(title string, of func(way int) account) {
		fmt.Fprintf(&b, "| %s |", title)
		for _, w := range shown {
			a := of(w)
			fmt.Fprintf(&b, " %d | %s |", a.turns, grouped(a.tokens))
		}
		b.WriteString("\n")
	}
	for _, r := range t.rows {
		line(r.task.title, func(w int) account { return r.costs[w].alone })
	}
	line("together", func(w int) account { return t.total(w).alone })
	line("together, calls that need no other's answer in one turn", func(w int) account { return t.total(w).joined })
	b.WriteString("\n")
	t.share(&b, programs, single)
	if t.older {
		t.share(&b, single, before)
	}
	fmt.Fprintf(&b, "Questions to the person: %d with single calls, %d with programs.\n", t.total(single).questions, t.total(programs).questions)
	_, err := io.WriteString(out, b.String())
	return err
}

// share writes which part of another way's cost one way has.
func (t *table) share(b *strings.Builder, way, of int) {
	a, c := t.total(way), t.total(of)
	fmt.Fprintf(b, "Of %s, %s take %s of the turns and %s of the tokens; with joined turns %s and %s.\n", ways[of].name, ways[way].name,
		part(a.alone.turns, c.alone.turns), part(a.alone.tokens, c.alone.tokens), part(a.joined.turns, c.joined.turns), part(a.joined.tokens, c.joined.tokens))
}

func part(n, of int) string { return fmt.Sprintf("%.2f", float64(n)/float64(max(of, 1))) }

// grouped writes a number with commas.
func grouped(n int) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
